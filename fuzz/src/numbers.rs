//! Numbers that find edges: a fuzzer's plain 64 bits are nearly always huge.

use arbitrary::Arbitrary;

/// Any number of 64 bits, with short spellings for those around which arithmetic breaks.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Wide {
    Any(u64),
    Small(u8),
    Medium(u32),
    /// A power of two and a little.
    Power(u8, i8),
    /// A digit and zeros.
    Round(u8, u8),
    BelowMax(u8),
}

impl Wide {
    pub fn get(self) -> u64 {
        match self {
            Wide::Any(number) => number,
            Wide::Small(number) => number.into(),
            Wide::Medium(number) => number.into(),
            Wide::Power(bit, off) => (1u64 << (bit % 64)).wrapping_add_signed((off % 4).into()),
            Wide::Round(digit, zeros) => {
                10u64.pow(u32::from(zeros % 20)).saturating_mul(u64::from(digit % 10))
            }
            Wide::BelowMax(off) => u64::MAX - u64::from(off),
        }
    }
}

/// A factor: usual, or any double there is.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Factor {
    One,
    Hundredths(u16),
    Any(f64),
}

impl Factor {
    pub fn get(self) -> f64 {
        match self {
            Factor::One => 1.0,
            Factor::Hundredths(n) => f64::from(n) / 100.0,
            Factor::Any(factor) => factor,
        }
    }
}
