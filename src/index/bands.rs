//! Bands: the cut of 64 bits that misses no near pair.

/// Most bands any cut has, so that a link for each fits into one array.
pub(super) const MOST_BANDS: usize = MOST_DISTANCE as usize + 1;

/// Largest distance that the tables serve.
const MOST_DISTANCE: u8 = 8;

/// One run of bits of a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// How far the run lies from bit 0.
    shift: u32,
    /// Number of bits, 7 to 64.
    pub(super) width: u32,
}

impl Band {
    /// Returns the fingerprint's bits of this band, moved down to bit 0.
    pub(super) fn key(self, code: u64) -> u64 {
        (code >> self.shift) & (u64::MAX >> (64 - self.width))
    }

    /// Says whether two fingerprints share this band's key.
    pub(super) fn agrees(self, one: u64, other: u64) -> bool {
        self.key(one ^ other) == 0
    }
}

/// Cuts the 64 bits into `max_distance + 1` bands that use each bit exactly once (at most [`MOST_BANDS`]).
///
/// At most k changed bits spread over k + 1 bands leave one band untouched, so a pair within k bits shares that
/// band's key. Manku, Jain and Das Sarma (WWW 2007) call the bands blocks.
pub(super) fn cut(max_distance: u8) -> Vec<Band> {
    let bands = u32::from(max_distance.min(MOST_DISTANCE)) + 1;
    (0..bands)
        .map(|band| {
            let (from, to) = (64 * band / bands, 64 * (band + 1) / bands);
            Band { shift: from, width: to - from }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_in_exactly_one_band() {
        for max_distance in 0..=8 {
            let bands = cut(max_distance);
            assert_eq!(bands.len(), usize::from(max_distance) + 1);
            for bit in 0..64 {
                let holders = bands.iter().filter(|band| band.key(1 << bit) != 0).count();
                assert_eq!(holders, 1, "bit {bit} at distance {max_distance}");
            }
        }
    }

    #[test]
    fn bands_of_one_cut_differ_by_one_bit_at_most() {
        for max_distance in 0..=8 {
            let widths: Vec<u32> = cut(max_distance).iter().map(|band| band.width).collect();
            let (least, most) = (widths.iter().min().unwrap(), widths.iter().max().unwrap());
            assert!(most - least <= 1, "{widths:?}");
        }
    }

    #[test]
    fn a_distance_that_no_rule_allows_gets_the_finest_cut() {
        assert_eq!(cut(u8::MAX), cut(8));
    }
}
