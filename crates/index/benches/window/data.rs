//! The codes: what comes before the window is full, and what comes then.

/// What codes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every code is drawn for itself.
    Uniform,
    /// Half of them are; the others belong to families whose sizes follow Zipf's law (one family for 200 codes), 3 to
    /// 10 flipped bits from the family's centre.
    Families,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Families => "families",
        }
    }
}

/// A stream of codes. A tenth of those after the window are planted: up to 3 flipped bits from one within it.
pub(crate) struct Data {
    pub(crate) kind: Kind,
    pub(crate) window: usize,
    pub(crate) codes: Vec<u64>,
    /// Planted distance, by place after the window.
    pub(crate) planted: Vec<Option<u8>>,
}

/// A generator of 64 bits (`SplitMix64`).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn flipped(&mut self, mut code: u64, bits: u64) -> u64 {
        let mut flipped = 0_u64;
        while u64::from(flipped.count_ones()) < bits {
            flipped |= 1 << self.below(64);
        }
        code ^= flipped;
        code
    }
}

impl Data {
    pub(crate) fn make(kind: Kind, window: usize, operations: usize) -> Self {
        let mut random = Random(42);
        let families = (window / 200).max(1);
        let centres: Vec<u64> = (0..families).map(|_| random.next()).collect();
        let mut sums = Vec::with_capacity(families);
        let mut sum = 0.0;
        for rank in 1..=families {
            sum += 1.0 / rank as f64;
            sums.push(sum);
        }
        let fresh = |random: &mut Random| {
            if kind == Kind::Uniform || random.below(2) == 0 {
                return random.next();
            }
            let at = random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
            let family = sums.partition_point(|sum| *sum < at).min(families - 1);
            let bits = 3 + random.below(8);
            random.flipped(centres[family], bits)
        };
        let mut codes: Vec<u64> = (0..window).map(|_| fresh(&mut random)).collect();
        let mut planted = Vec::with_capacity(operations);
        for _ in 0..operations {
            if random.below(10) == 0 {
                let (of, bits) = (codes[codes.len() - 1 - random.below(window as u64 - 1) as usize], random.below(4));
                codes.push(random.flipped(of, bits));
                planted.push(Some(bits as u8));
            } else {
                let code = fresh(&mut random);
                codes.push(code);
                planted.push(None);
            }
        }
        Self { kind, window, codes, planted }
    }
}
