//! Protobuf messages, written as JSON by the `.proto` file that they were encoded with.
//!
//! `protox` compiles the file, unless the registry has it compiled already, as a `FileDescriptorProto` in base64: the
//! serializer for Python registers it so, and registries that do not read Protobuf give it back so. The message itself is
//! read here, field by field and without a tree of it, so that depth and length of the JSON bound the work and the memory,
//! whatever the message says.
//!
//! Members have the names of the file. A field that is not on the wire is left out. A `Timestamp` is a text in RFC 3339,
//! and the wrappers, `Struct` and its parts are what they hold, as in the JSON of Protobuf itself.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{Cardinality, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::json_text::{JsonText, Unfit, Wire, text, unzigzag};
use super::schema_id::SchemaText;

/// The name of the file that holds the schema. No reference has it.
const MAIN: &str = "dupgate/value.proto";

/// Files that every serializer knows without a reference.
const KNOWN: [(&str, &str); 4] = [
    (
        "confluent/meta.proto",
        r#"syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }"#,
    ),
    (
        "confluent/type/decimal.proto",
        r#"syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"#,
    ),
    (
        "google/type/date.proto",
        r#"syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }"#,
    ),
    (
        "google/type/timeofday.proto",
        r#"syntax = "proto3"; package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"#,
    ),
];

/// Messages that stand for the one value in them.
const WRAPPERS: [&str; 12] = [
    "google.protobuf.DoubleValue",
    "google.protobuf.FloatValue",
    "google.protobuf.Int64Value",
    "google.protobuf.UInt64Value",
    "google.protobuf.Int32Value",
    "google.protobuf.UInt32Value",
    "google.protobuf.BoolValue",
    "google.protobuf.StringValue",
    "google.protobuf.BytesValue",
    "google.protobuf.Struct",
    "google.protobuf.Value",
    "google.protobuf.ListValue",
];

/// A schema, ready to read values.
#[derive(Debug)]
pub(super) struct Schema {
    file: FileDescriptor,
}

/// The texts of files by their names.
struct Files(BTreeMap<String, String>);

impl FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let text = self.0.get(name).ok_or_else(|| protox::Error::file_not_found(name))?;
        let bytes = BASE64_STANDARD.decode(text).ok();
        match bytes.and_then(|bytes| FileDescriptorProto::decode(bytes.as_slice()).ok()) {
            Some(compiled) => Ok(FileDescriptorProto { name: Some(name.to_owned()), ..compiled }.into()),
            None => File::from_source(name, text),
        }
    }
}

impl Schema {
    /// Compiles a file with those that it imports.
    pub(super) fn parse(text: &str, references: &[SchemaText]) -> Result<Self, String> {
        let known = KNOWN.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let referred = references.iter().map(|of| (of.name.clone(), of.text.clone()));
        let files = known.chain(referred).chain([(MAIN.to_owned(), text.to_owned())]).collect();
        let mut resolver = ChainFileResolver::new();
        resolver.add(Files(files));
        resolver.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.open_file(MAIN).map_err(|error| error.to_string())?;
        let file = compiler.descriptor_pool().get_file_by_name(MAIN).ok_or("it was not compiled")?;
        Ok(Self { file })
    }

    /// Writes a value as JSON. The numbers that choose its message are in the header, or before the message.
    pub(super) fn write(&self, in_header: Option<&[u8]>, payload: &[u8], json: &mut JsonText) -> Result<(), Unfit> {
        let mut header = Wire { rest: in_header.unwrap_or(payload) };
        let message = self.message(&mut header)?;
        let bytes = if in_header.is_some() { payload } else { header.rest };
        write_message(&message, &[bytes], json)
    }

    /// Returns the message that a list of indexes leads to: one of the file, one in that, and so on. An empty list is short
    /// for the first message.
    fn message(&self, wire: &mut Wire<'_>) -> Result<MessageDescriptor, Unfit> {
        let count = wire.zigzag()?;
        if count < 0 {
            return Err(Unfit::damaged(format!("{count} message indexes")));
        }
        let mut found = None;
        for level in 0..count.max(1) {
            let index = if count == 0 { 0 } else { wire.zigzag()? };
            let child = |messages: &mut dyn Iterator<Item = MessageDescriptor>| {
                // Serializers count what is written in the file: maps are not.
                let index = usize::try_from(index).ok()?;
                messages.filter(|message| !message.is_map_entry()).nth(index)
            };
            let next = match &found {
                None => child(&mut self.file.messages()),
                Some(outer) => child(&mut MessageDescriptor::child_messages(outer)),
            };
            let missing = || Unfit::damaged(format!("its schema has no message {index} at level {level}"));
            found = Some(next.ok_or_else(missing)?);
        }
        found.ok_or_else(|| Unfit::damaged("it names no message"))
    }
}

/// What a field holds on the wire.
#[derive(Clone, Copy, Debug)]
enum Raw<'r> {
    Varint(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(&'r [u8]),
    Group(&'r [u8]),
}

impl<'r> Wire<'r> {
    /// Reads one field with its number.
    fn field(&mut self) -> Result<(u32, Raw<'r>), Unfit> {
        let (number, kind) = self.tag()?;
        Ok((
            number,
            match kind {
                0 => Raw::Varint(self.varint()?),
                1 => Raw::Eight(self.array()?),
                2 => Raw::Bytes(self.counted()?),
                3 => Raw::Group(self.group(number)?),
                5 => Raw::Four(self.array()?),
                _ => return Err(Unfit::damaged(format!("field {number} has the unknown wire type {kind}"))),
            },
        ))
    }

    fn tag(&mut self) -> Result<(u32, u64), Unfit> {
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 => Ok((number, tag & 7)),
            _ => Err(Unfit::damaged(format!("{} is no field number", tag >> 3))),
        }
    }

    fn counted(&mut self) -> Result<&'r [u8], Unfit> {
        let length = self.varint()?;
        self.take_as_said(length)
    }

    /// Reads to the end of a group, in a loop: groups in it are only counted.
    fn group(&mut self, number: u32) -> Result<&'r [u8], Unfit> {
        let (whole, mut open) = (self.rest, 1_usize);
        loop {
            let length = whole.len() - self.rest.len();
            match self.tag()? {
                (_, 0) => drop(self.varint()?),
                (_, 1) => drop(self.take(8)?),
                (_, 2) => drop(self.counted()?),
                (_, 3) => open += 1,
                (_, 4) => open -= 1,
                (_, 5) => drop(self.take(4)?),
                (_, kind) => return Err(Unfit::damaged(format!("an unknown wire type {kind} in group {number}"))),
            }
            if open == 0 {
                return Ok(whole.get(..length).unwrap_or_default());
            }
        }
    }
}

/// Calls `each` for every field of a message. Its parts are those of one message, in the order of the wire.
fn fields<'r>(parts: &[&'r [u8]], mut each: impl FnMut(u32, Raw<'r>) -> Result<(), Unfit>) -> Result<(), Unfit> {
    for part in parts {
        let mut wire = Wire { rest: part };
        while !wire.rest.is_empty() {
            let (number, raw) = wire.field()?;
            each(number, raw)?;
        }
    }
    Ok(())
}

/// Returns the last value of each field that the message has.
fn last_values<'r>(message: &MessageDescriptor, parts: &[&'r [u8]]) -> Result<BTreeMap<u32, Raw<'r>>, Unfit> {
    let mut last = BTreeMap::new();
    fields(parts, |number, raw| {
        if message.get_field(number).is_some() {
            last.insert(number, raw);
        }
        Ok(())
    })?;
    Ok(last)
}

fn write_message(message: &MessageDescriptor, parts: &[&[u8]], json: &mut JsonText) -> Result<(), Unfit> {
    let last = last_values(message, parts)?;
    let known = last.iter().filter_map(|(number, raw)| Some((message.get_field(*number)?, *raw)));
    match message.full_name() {
        "google.protobuf.Timestamp" => return write_time(&last, json),
        name if WRAPPERS.contains(&name) => {
            let mut known = known;
            return match (known.next(), name) {
                (Some((field, raw)), _) => {
                    write_field(&field, raw, parts, json).map_err(|why| why.inside(field.name()))
                }
                (None, "google.protobuf.Value") => json.plain("null"),
                (None, _) => message.fields().next().map_or(Ok(()), |field| write_default(&field, json)),
            };
        }
        _ => {}
    }
    json.object(|json| {
        for (field, raw) in known {
            json.member(field.name(), |json| write_field(&field, raw, parts, json))?;
        }
        Ok(())
    })
}

fn write_time(last: &BTreeMap<u32, Raw<'_>>, json: &mut JsonText) -> Result<(), Unfit> {
    let number = |field| match last.get(&field) {
        Some(Raw::Varint(number)) => number.cast_signed(),
        _ => 0,
    };
    let time = i32::try_from(number(2)).ok().and_then(|nanos| jiff::Timestamp::new(number(1), nanos).ok());
    json.string(&time.ok_or_else(|| Unfit::damaged("a time out of range"))?.to_string())
}

/// Writes a field whose last value is `last`; its earlier ones are found in the message again if they count.
fn write_field(field: &FieldDescriptor, last: Raw<'_>, parts: &[&[u8]], json: &mut JsonText) -> Result<(), Unfit> {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return Err(Unfit::damaged("a map without entries")) };
        let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        return json.object(|json| {
            fields(parts, |number, raw| match raw {
                _ if number != field.number() => Ok(()),
                Raw::Bytes(bytes) => write_entry(&key, &value, bytes, json),
                Raw::Varint(_) | Raw::Eight(_) | Raw::Four(_) | Raw::Group(_) => Err(mismatch(field, raw)),
            })
        });
    }
    if field.cardinality() == Cardinality::Repeated {
        return json.list(|json| {
            fields(parts, |number, raw| match (raw, field.kind()) {
                _ if number != field.number() => Ok(()),
                (Raw::Bytes(packed), kind) if element(&kind).is_some() => {
                    let (mut wire, take) = (Wire { rest: packed }, element(&kind));
                    while let (false, Some(take)) = (wire.rest.is_empty(), take) {
                        write_value(field, take(&mut wire)?, json)?;
                    }
                    Ok(())
                }
                (raw, _) => write_value(field, raw, json),
            })
        });
    }
    if let Kind::Message(message) = field.kind() {
        // Messages of a field that occurs again are merged.
        let mut merged = Vec::new();
        fields(parts, |number, raw| match raw {
            _ if number != field.number() => Ok(()),
            Raw::Bytes(bytes) | Raw::Group(bytes) => {
                merged.push(bytes);
                Ok(())
            }
            Raw::Varint(_) | Raw::Eight(_) | Raw::Four(_) => Err(mismatch(field, raw)),
        })?;
        return write_message(&message, &merged, json);
    }
    write_value(field, last, json)
}

fn write_entry(key: &FieldDescriptor, value: &FieldDescriptor, entry: &[u8], json: &mut JsonText) -> Result<(), Unfit> {
    let last = last_values(key.parent_message(), &[entry])?;
    let name = match (last.get(&1), key.kind()) {
        (None, Kind::String) => String::new(),
        (None, Kind::Bool) => "false".to_owned(),
        (None, _) => "0".to_owned(),
        (Some(Raw::Bytes(name)), Kind::String) => text(name)?.to_owned(),
        (Some(raw), kind) => number(&kind, *raw).ok_or_else(|| mismatch(key, *raw))?,
    };
    json.member(&name, |json| match last.get(&2) {
        Some(raw) => write_field(value, *raw, &[entry], json),
        None => write_default(value, json),
    })
}

fn write_default(field: &FieldDescriptor, json: &mut JsonText) -> Result<(), Unfit> {
    if field.is_map() {
        return json.object(|_| Ok(()));
    }
    if field.is_list() {
        return json.list(|_| Ok(()));
    }
    match field.kind() {
        Kind::Message(message) => write_message(&message, &[], json),
        Kind::String | Kind::Bytes => json.string(""),
        Kind::Bool => json.plain("false"),
        Kind::Enum(_) => write_value(field, Raw::Varint(0), json),
        Kind::Double
        | Kind::Float
        | Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Fixed32
        | Kind::Fixed64
        | Kind::Sfixed32
        | Kind::Sfixed64 => json.plain("0"),
    }
}

/// Writes one value.
fn write_value(field: &FieldDescriptor, raw: Raw<'_>, json: &mut JsonText) -> Result<(), Unfit> {
    match (field.kind(), raw) {
        (Kind::Message(message), Raw::Bytes(bytes) | Raw::Group(bytes)) => write_message(&message, &[bytes], json),
        (Kind::String, Raw::Bytes(bytes)) => json.string(text(bytes)?),
        (Kind::Bytes, Raw::Bytes(bytes)) => json.bytes(bytes),
        (Kind::Double, Raw::Eight(bytes)) => json.float(f64::from_le_bytes(bytes)),
        (Kind::Float, Raw::Four(bytes)) => json.float(f32::from_le_bytes(bytes).into()),
        (Kind::Enum(of), Raw::Varint(_)) if of.full_name() == "google.protobuf.NullValue" => json.plain("null"),
        (Kind::Enum(of), Raw::Varint(number)) => {
            let number = int32(number);
            match of.get_value(number) {
                Some(value) => json.string(value.name()),
                None => json.plain(&number.to_string()),
            }
        }
        (kind, raw) => json.plain(&number(&kind, raw).ok_or_else(|| mismatch(field, raw))?),
    }
}

/// Returns the decimal form of a number or boolean; `None` if the kind is another, or not written like this.
fn number(kind: &Kind, raw: Raw<'_>) -> Option<String> {
    Some(match (kind, raw) {
        (Kind::Bool, Raw::Varint(number)) => (number != 0).to_string(),
        (Kind::Int32, Raw::Varint(number)) => int32(number).to_string(),
        (Kind::Int64, Raw::Varint(number)) => number.cast_signed().to_string(),
        (Kind::Uint32, Raw::Varint(number)) => (number & u64::from(u32::MAX)).to_string(),
        (Kind::Uint64, Raw::Varint(number)) => number.to_string(),
        (Kind::Sint32 | Kind::Sint64, Raw::Varint(number)) => unzigzag(number).to_string(),
        (Kind::Fixed32, Raw::Four(bytes)) => u32::from_le_bytes(bytes).to_string(),
        (Kind::Sfixed32, Raw::Four(bytes)) => i32::from_le_bytes(bytes).to_string(),
        (Kind::Fixed64, Raw::Eight(bytes)) => u64::from_le_bytes(bytes).to_string(),
        (Kind::Sfixed64, Raw::Eight(bytes)) => i64::from_le_bytes(bytes).to_string(),
        _ => return None,
    })
}

/// Returns the lower half of a number: negative ones are written in 64 bits.
fn int32(number: u64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

type TakeElement = for<'r> fn(&mut Wire<'r>) -> Result<Raw<'r>, Unfit>;

/// Returns what reads an element of a packed field; `None` for kinds that are never packed.
fn element(kind: &Kind) -> Option<TakeElement> {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Some(|wire| wire.array().map(Raw::Eight)),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Some(|wire| wire.array().map(Raw::Four)),
        Kind::String | Kind::Bytes | Kind::Message(_) => None,
        Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Bool
        | Kind::Enum(_) => Some(|wire| wire.varint().map(Raw::Varint)),
    }
}

fn mismatch(field: &FieldDescriptor, raw: Raw<'_>) -> Unfit {
    let actual = match raw {
        Raw::Varint(_) => "a varint",
        Raw::Eight(_) => "8 bytes",
        Raw::Four(_) => "4 bytes",
        Raw::Bytes(_) => "counted bytes",
        Raw::Group(_) => "a group",
    };
    Unfit::damaged(format!("{actual} where {:?} is expected", field.kind()))
}
