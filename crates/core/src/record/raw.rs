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
    /// Returns the value of the last header whose name is the one that is meant.
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]>;

    /// Returns the value of the last header of this name, as Kafka's own clients do.
    fn last(&self, name: &str) -> Option<&[u8]> {
        self.last_where(&|known| known == name)
    }
}

/// No headers.
impl Headers for () {
    fn last_where(&self, _is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        None
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        self.iter().rev().find(|(name, _)| is_meant(name.as_ref())).map(|(_, value)| value.as_ref())
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for Vec<(N, V)> {
    fn last_where(&self, is_meant: &dyn Fn(&str) -> bool) -> Option<&[u8]> {
        self.as_slice().last_where(is_meant)
    }
}
