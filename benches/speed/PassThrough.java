// A copy of a topic by Kafka Streams, exactly once: `streams.rs` compares the service with it.
//
// Arguments: the input topic, the output topic, and settings of Kafka Streams, NAME=VALUE each. Every line of standard
// input is an application id, by which the input is copied from its start until the next line; then `stopped` is
// printed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

class PassThrough {
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        for (var setting : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            var parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        var lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String id = lines.readLine(); id != null; id = lines.readLine()) {
            properties.put("application.id", id);
            var builder = new StreamsBuilder();
            builder.stream(arguments[0]).to(arguments[1]);
            try (var streams = new KafkaStreams(builder.build(), properties)) {
                streams.setUncaughtExceptionHandler(error -> {
                    error.printStackTrace();
                    Runtime.getRuntime().halt(1);
                    return null;
                });
                streams.start();
                lines.readLine();
            }
            System.out.println("stopped");
        }
    }
}
