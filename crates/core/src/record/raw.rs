//! One record as it came off the wire.

/// One record, borrowed from its owner.
#[derive(Clone, Copy)]
pub struct RawRecord<'r> {
    /// The record's key.
    pub key: Option<&'r [u8]>,
    /// The record's value. Tombstones are handled before this module; one that comes here has no text.
    pub value: Option<&'r [u8]>,
    /// The record's headers.
    pub headers: &'r (dyn Headers + 'r),
}

/// Headers looked up by name.
pub trait Headers {
    /// Returns the value of the last header of this name, as Kafka's own clients do.
    fn last(&self, name: &str) -> Option<&[u8]>;
}

/// No headers.
impl Headers for () {
    fn last(&self, _name: &str) -> Option<&[u8]> {
        None
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn last(&self, name: &str) -> Option<&[u8]> {
        self.iter().rev().find(|(known, _)| known.as_ref() == name).map(|(_, value)| value.as_ref())
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for Vec<(N, V)> {
    fn last(&self, name: &str) -> Option<&[u8]> {
        Headers::last(self.as_slice(), name)
    }
}
