//! Our member id in the group.

#![expect(unsafe_code, reason = "the client library's binding has no safe form of this question")]

use std::ffi::CStr;

use rdkafka::bindings::{rd_kafka_mem_free, rd_kafka_memberid};
use rdkafka::client::{Client, ClientContext};

/// Returns the id that the coordinator has given to this member. `None` if it has none, as before the first join.
pub(super) fn member_id<C: ClientContext>(client: &Client<C>) -> Option<Box<str>> {
    let native = client.native_ptr();
    // SAFETY: the client lives as long as it is borrowed, and may be called from any thread.
    let given = unsafe { rd_kafka_memberid(native) };
    if given.is_null() {
        return None;
    }
    // SAFETY: it is not null, so it is a NUL-terminated string that we own until it is freed below.
    let id: Box<str> = unsafe { CStr::from_ptr(given) }.to_string_lossy().into();
    // SAFETY: the client allocated it for us, and it is not used afterwards.
    unsafe { rd_kafka_mem_free(native, given.cast()) };
    Some(id).filter(|id| !id.is_empty())
}
