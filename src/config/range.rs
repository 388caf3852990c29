//! The range of a setting, which is declared beside its default: it is checked before anything is resolved, and is part
//! of the schema if the setting is a number.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

use schemars::Schema;
use schemars::transform::Transform;
use serde::Serialize;
use serde_json::json;

/// The values that a setting takes.
pub(super) struct Range<T> {
    min: Bound<T>,
    max: Bound<T>,
    /// Messages for a smaller value and for a larger one, in which `{}` is the value.
    below: Option<&'static str>,
    above: Option<&'static str>,
}

/// This value and larger ones.
pub(super) const fn at_least<T>(min: T) -> Range<T> {
    Range { min: Bound::Included(min), max: Bound::Unbounded, below: None, above: None }
}

/// This value and smaller ones.
pub(super) const fn at_most<T>(max: T) -> Range<T> {
    Range { min: Bound::Unbounded, max: Bound::Included(max), below: None, above: None }
}

/// From one value to another, both inclusive.
pub(super) const fn between<T>(min: T, max: T) -> Range<T> {
    Range { min: Bound::Included(min), max: Bound::Included(max), below: None, above: None }
}

/// From one value, exclusive, to another, inclusive.
pub(super) const fn above<T>(min: T, max: T) -> Range<T> {
    Range { min: Bound::Excluded(min), max: Bound::Included(max), below: None, above: None }
}

/// A similarity, or a share of a page.
pub(super) const fn share() -> Range<f64> {
    between(0.0, 1.0).otherwise("{} is not a similarity (expected 0 to 1)")
}

impl<T> Range<T> {
    /// Sets the message for a smaller value, in which `{}` is the value.
    pub(super) const fn below(mut self, message: &'static str) -> Self {
        self.below = Some(message);
        self
    }

    /// Sets the message for any other value, in which `{}` is the value.
    pub(super) const fn otherwise(mut self, message: &'static str) -> Self {
        self.above = Some(message);
        self.below(message)
    }
}

impl<T: PartialOrd + Display> Range<T> {
    /// Returns why a value is refused. `None` if it is in the range, or not given.
    pub(super) fn refusal(&self, value: impl Into<Option<T>>) -> Option<String> {
        let bounds = (self.min.as_ref(), self.max.as_ref());
        let value = value.into().filter(|value| !bounds.contains(value))?;
        let (side, message, limit) = match bounds {
            (Bound::Included(limit) | Bound::Excluded(limit), _) if value <= *limit => ("below", self.below, limit),
            (_, Bound::Included(limit) | Bound::Excluded(limit)) => ("above", self.above, limit),
            (_, Bound::Unbounded) => return None,
        };
        Some(match message {
            Some(message) => message.replace("{}", &value.to_string()),
            None => format!("{value} is {side} the limit of {limit}"),
        })
    }
}

/// Adds the range to the schema of a number.
impl<T: Serialize> Transform for Range<T> {
    fn transform(&mut self, schema: &mut Schema) {
        let limits = [("inimum", &self.min), ("aximum", &self.max)];
        for (name, bound) in limits {
            let (key, limit) = match bound {
                Bound::Included(limit) => (format!("m{name}"), limit),
                Bound::Excluded(limit) => (format!("exclusiveM{name}"), limit),
                Bound::Unbounded => continue,
            };
            let limit = json!(limit);
            if limit.is_number() {
                schema.insert(key, limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_its_range_is_refused_with_the_limit() {
        assert_eq!(at_most(8).refusal(8), None);
        assert_eq!(at_most(8).refusal(9).as_deref(), Some("9 is above the limit of 8"));
        assert_eq!(at_least(1).refusal(0).as_deref(), Some("0 is below the limit of 1"));
        assert_eq!(at_least(1).refusal(None), None, "a setting that is not given");
        assert_eq!(share().refusal(Some(1.5)).as_deref(), Some("1.5 is not a similarity (expected 0 to 1)"));
        let range = || above(0.0, 1.0).below("nothing");
        assert_eq!((range().refusal(0.0).as_deref(), range().refusal(1.0)), (Some("nothing"), None));
        assert_eq!(range().refusal(2.0).as_deref(), Some("2 is above the limit of 1"));
    }

    #[test]
    fn the_schema_of_a_number_has_its_range() {
        let mut schema = schemars::json_schema!({"type": "number"});
        above(0.0, 1.0).transform(&mut schema);
        assert_eq!(schema.to_value(), json!({"type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0}));
    }
}
