//! Versions of the format of both logs.

/// The newest version of the format. It is written only if a record holds something that older versions cannot express.
pub const FORMAT_VERSION: u8 = STREAM_TIME_VERSION;

/// The version of a checkpoint that is written while pages are far ahead of the stream time, and of a record that holds
/// requests to set it back, or their answers.
pub(super) const STREAM_TIME_VERSION: u8 = 11;

/// The version of a record that holds pages or originals with a title, and nothing newer.
pub const TITLES_VERSION: u8 = 10;

/// The version of a checkpoint that holds positions that were delivered once, then judged again, and are not delivered
/// since, and nothing newer.
pub(super) const PENDING_VERSION: u8 = 9;

/// The version of a record that holds rules under which a short page needs a single key, and nothing newer.
pub const ONE_KEY_VERSION: u8 = 8;

/// The version of a record that holds pages with an address that does not follow from their id, and nothing newer.
pub const ADDRESS_VERSION: u8 = 7;

/// The version of a record that holds sites, variants, originals that not all tables hold, or the rules for these, and
/// nothing newer.
pub const SITES_VERSION: u8 = 6;

/// The version of a record that holds rules that require further evidence for low estimates, and nothing newer.
pub const EVIDENCE_VERSION: u8 = 5;

/// The version of a record that holds what [`DEFAULT_VERSION`] cannot express: a `SimHash` of other than 64 bits, or
/// how much of a page is in another one.
pub const OPTIONS_VERSION: u8 = 4;

/// The version of a record that needs nothing newer, so that older releases can read it. The first version with
/// numbers.
pub const DEFAULT_VERSION: u8 = 3;

/// The first version with sketches; never written.
pub(super) const SKETCHES_VERSION: u8 = 2;

/// The versions that are read, including [`FORMAT_VERSION`].
pub const KNOWN_VERSIONS: [u8; 11] = [
    1,
    SKETCHES_VERSION,
    DEFAULT_VERSION,
    OPTIONS_VERSION,
    EVIDENCE_VERSION,
    SITES_VERSION,
    ADDRESS_VERSION,
    ONE_KEY_VERSION,
    PENDING_VERSION,
    TITLES_VERSION,
    STREAM_TIME_VERSION,
];
