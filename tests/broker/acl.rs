//! Creates ACLs. The client library can create them; its Rust wrapper has no function for it.
#![expect(unsafe_code, reason = "the wrapper of the client library lacks ACLs")]

use std::ffi::CString;
use std::ptr::null;

use rdkafka::admin::AdminClient;
use rdkafka::bindings as native;
use rdkafka::bindings::rd_kafka_AclOperation_t as Operation;
use rdkafka::bindings::rd_kafka_ResourceType_t as Resource;
use rdkafka::client::DefaultClientContext;

use super::broker::Broker;

/// Permits a user these operations on all resources with this prefix.
pub(super) fn allow(broker: &Broker, user: &str, resource: Resource, prefix: &str, operations: &[Operation]) {
    let admin: AdminClient<DefaultClientContext> = broker.client().create().expect("a client");
    let client = admin.inner().native_ptr();
    let text = |text: &str| CString::new(text).expect("no zero in it");
    let (name, principal, host) = (text(prefix), text(&format!("User:{user}")), text("*"));
    let mut why = [0; 256];
    // SAFETY: every pointer is that of a value which lives until the end of this block, what the library allocates is
    // freed once, and the calls follow its own example for ACLs.
    unsafe {
        let new = |operation: &Operation| {
            native::rd_kafka_AclBinding_new(
                resource,
                name.as_ptr(),
                native::rd_kafka_ResourcePatternType_t::RD_KAFKA_RESOURCE_PATTERN_PREFIXED,
                principal.as_ptr(),
                host.as_ptr(),
                *operation,
                native::rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
                why.as_mut_ptr(),
                why.len(),
            )
        };
        let mut bindings: Vec<_> = operations.iter().map(new).collect();
        assert!(bindings.iter().all(|binding| !binding.is_null()), "the library refuses an ACL");
        let queue = native::rd_kafka_queue_new(client);
        native::rd_kafka_CreateAcls(client, bindings.as_mut_ptr(), bindings.len(), null(), queue);
        let event = native::rd_kafka_queue_poll(queue, 30_000);
        assert!(!event.is_null(), "no answer about the ACLs");
        let error = native::rd_kafka_event_error(event);
        native::rd_kafka_event_destroy(event);
        native::rd_kafka_queue_destroy(queue);
        native::rd_kafka_AclBinding_destroy_array(bindings.as_mut_ptr(), bindings.len());
        assert_eq!(error, native::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR, "the ACLs are refused");
    }
}
