//! Room 4: the protocol between workers and judges: requests in one log, verdicts in the other.
//!
//! Two logs carry the protocol. The *fingerprint log* holds entries ([`Entry`]): a worker asks about a page, an
//! operator asks to forget or to reopen. The *verdict log* holds the answers ([`VerdictRecord`]): verdicts, the
//! rules they were made under, and checkpoints. Before: `fingerprint`. After: `judge` decides on entries and
//! follows verdicts; `worker` meets verdicts with the pages that wait for them.
//!
//! The types here are what the logs *mean*; `codec` defines their bytes.

mod checkpoint;
pub mod codec;
mod entry;
mod judged;
mod offset;
mod placement;
mod rules;
mod verdict;

pub use checkpoint::{Checkpoint, PartitionCheckpoint};
pub use codec::{
    CodecError, DEFAULT_PART_BYTES, VerdictReader, decode_checkpoint, decode_entries, encode_checkpoint,
    encode_entries, encode_verdict,
};
pub use entry::{Entry, EntryBody, ForgetTarget, PageEntry, RequestId};
pub use judged::Judged;
pub use offset::{EntryOffset, VerdictOffset};
pub use placement::Placement;
pub use rules::{MinHashRules, Rules, RulesNumber, SameId, Stage, Tails, Windows};
pub use verdict::{
    Answer, Decision, LogIdentity, Match, NewOriginal, PageVerdict, RulesRecord, Verdict, VerdictBatch, VerdictRecord,
};
