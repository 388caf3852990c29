//! Shares in thousandths, for estimates and rules.

use std::fmt;

/// A share in whole thousandths. Estimates are rounded down. No share reaches a limit above [`PerMille::ONE`].
///
/// Displayed as people write a share: `0.85`, `0.857`, `1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerMille(pub u16);

impl PerMille {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All.
    pub const ONE: Self = Self(1000);

    /// Returns the share of a part in the whole, rounded down, at most [`PerMille::ONE`]; if both are 0, it is
    /// [`PerMille::ZERO`].
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Self {
        let thousandths = part.saturating_mul(1000) / whole.max(1);
        u16::try_from(thousandths).map_or(Self::ONE, |thousandths| Self(thousandths).min(Self::ONE))
    }

    /// Returns a share between 0 and 1, rounded to the nearest thousandth; `None` for any other number.
    #[must_use]
    pub fn rounded(share: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        (0.0..=1.0).contains(&share).then(|| Self((share * 1000.0).round() as u16))
    }

    /// Returns the share as a number from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for PerMille {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.share().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_down_and_no_more_than_all() {
        let found =
            [(0, 0), (0, 3), (2, 3), (3, 3), (4, 3), (u64::MAX, 1)].map(|(part, whole)| PerMille::of(part, whole).0);
        assert_eq!(found, [0, 0, 666, 1000, 1000, 1000]);
    }

    #[test]
    fn a_setting_is_rounded_to_the_nearest_and_refused_where_it_is_no_share() {
        let found = [0.0, 0.8504, 0.8506, 1.0].map(|share| PerMille::rounded(share).map(|rounded| rounded.0));
        assert_eq!(found, [Some(0), Some(850), Some(851), Some(1000)]);
        assert_eq!([-0.1, 1.1, f64::NAN].map(PerMille::rounded), [None; 3]);
    }

    #[test]
    fn a_share_is_shown_as_people_write_it() {
        assert_eq!([0, 850, 857, 1000].map(|share| PerMille(share).to_string()), ["0", "0.85", "0.857", "1"]);
    }
}
