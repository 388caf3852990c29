//! Versions of the format of both logs.

/// The newest version of the format. It is written only where a record holds what older ones cannot say.
pub const FORMAT_VERSION: u8 = TITLES_VERSION;

/// The version that is written where a record holds pages or originals with a title.
pub const TITLES_VERSION: u8 = 10;

/// The version that is written where a checkpoint holds positions that were delivered once, and are judged again and on
/// their way, and nothing newer.
pub(super) const PENDING_VERSION: u8 = 9;

/// The version that is written where a record holds rules under which a short page needs a single key, and nothing
/// newer.
pub const ONE_KEY_VERSION: u8 = 8;

/// The version that is written where a record holds pages with an address that their id does not say, and nothing
/// newer.
pub const ADDRESS_VERSION: u8 = 7;

/// The version that is written where a record holds sites, variants, originals that not all tables hold, or the rules
/// that go with them, and nothing newer.
pub const SITES_VERSION: u8 = 6;

/// The version written where rules ask for further evidence of low estimates and nothing newer is needed.
pub const EVIDENCE_VERSION: u8 = 5;

/// The version that is written where a record holds what [`DEFAULT_VERSION`] cannot say: a `SimHash` of other than 64
/// bits, or how much of a page is in another one.
pub const OPTIONS_VERSION: u8 = 4;

/// The version of the format that is written where it can say all: older releases read it. The first with numbers.
pub const DEFAULT_VERSION: u8 = 3;

/// The first version with sketches; never written.
pub(super) const SKETCHES_VERSION: u8 = 2;

/// Versions that are read, [`FORMAT_VERSION`] included.
pub const KNOWN_VERSIONS: [u8; 10] = [
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
];
