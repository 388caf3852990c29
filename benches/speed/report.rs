//! Floors beside the numbers. Nothing fails for being slow: a busy machine is no defect.

use serde_json::{Value, json};

use crate::measure::round;

/// What is wanted of one number.
pub(crate) struct Floor {
    what: &'static str,
    wanted: f64,
    found: f64,
    met: bool,
}

impl Floor {
    /// The number should be this or less.
    pub(crate) fn at_most(what: &'static str, wanted: f64, found: f64) -> Self {
        Self { what, wanted, found, met: found <= wanted }
    }

    /// The number should be this or more.
    pub(crate) fn at_least(what: &'static str, wanted: f64, found: f64) -> Self {
        Self { what, wanted, found, met: found >= wanted }
    }

    fn json(&self) -> Value {
        json!({ "what": self.what, "floor": self.wanted, "found": round(self.found), "met": self.met })
    }
}

/// Prints what was wanted and what was found.
pub(crate) fn print(floors: &[Floor]) -> Value {
    println!("{:<62} {:>8} {:>9}", "Floors", "wanted", "found");
    for floor in floors {
        let met = if floor.met { "met" } else { "not met" };
        println!("{:<62} {:>8} {:>9.3}  {met}", floor.what, floor.wanted, floor.found);
    }
    floors.iter().map(Floor::json).collect()
}
