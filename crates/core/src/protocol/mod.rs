//! The protocol between workers and judges: requests in one log, verdicts in the other.
//!
//! Two logs carry the protocol. The *fingerprint log* holds requests ([`Request`]): a worker asks about a page, an
//! operator asks the judge to forget or to reopen. The *verdict log* holds the answers ([`VerdictRecord`]): verdicts,
//! the rules they were made under, and checkpoints. Before: `fingerprint`. After: `judge` decides on requests and
//! follows verdicts; `worker` meets verdicts with the pages that wait for them.
//!
//! The types here are what the logs *mean*; `codec` defines their bytes.

pub(crate) mod codec;
mod request;
mod decision;
mod judged;
mod offset;
mod rules;
mod verdict;

pub use codec::{
    BARRIER, CodecError, DEFAULT_PART_BYTES, FORMAT_VERSION, VerdictReader, decode_requests, encode_requests,
    encode_verdict, is_ours, max_verdict_bytes,
};
pub(crate) use codec::{decode_checkpoint, encode_checkpoint};
pub use decision::{Decision, Match, MatchedBy, NewOriginal, Placement, VerdictKind};
pub use judged::{Delivered, Judged};
pub use offset::{LogIdentity, LogPartition, RequestOffset, VerdictOffset};
pub use request::{ForgetTarget, PageRequest, Request, RequestBody, RequestId};
pub use rules::{DualPeriod, ExpiryWatermarks, MinHashRules, PerStage, Rules, RulesNumber, SameId, Stage};
pub use verdict::{
    Answer, Checkpoint, Leap, PageVerdict, PartitionCheckpoint, RulesRecord, Verdict, VerdictBatch, VerdictRecord,
};
