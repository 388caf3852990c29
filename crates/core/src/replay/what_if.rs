//! Variants of settings to try: `key=value` assignments, some with several values.

/// Most combinations of values that are judged in one pass.
pub const MAX_VARIANTS: usize = 32;

/// More combinations than can be judged in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the values make {0} combinations; at most {MAX_VARIANTS} are judged in one pass: try fewer values")]
pub struct TooManyVariants(usize);

/// Returns every combination of values, in the order of the values: `["a=1,2", "b=x"]` yields `["a=1", "b=x"]` and
/// `["a=2", "b=x"]`. A value in brackets or braces is one value.
///
/// # Errors
///
/// [`TooManyVariants`].
pub fn variants(assignments: &[String]) -> Result<Vec<Vec<String>>, TooManyVariants> {
    let choices: Vec<Vec<String>> = assignments.iter().map(|assignment| values(assignment)).collect();
    let count = choices.iter().fold(1_usize, |count, values| count.saturating_mul(values.len()));
    if count > MAX_VARIANTS {
        return Err(TooManyVariants(count));
    }
    let mut made: Vec<Vec<String>> = vec![Vec::new()];
    for values in &choices {
        let longer = |start: &Vec<String>| {
            let with = |value: &String| [start.as_slice(), std::slice::from_ref(value)].concat();
            values.iter().map(with).collect::<Vec<_>>()
        };
        made = made.iter().flat_map(longer).collect();
    }
    Ok(made)
}

fn values(assignment: &str) -> Vec<String> {
    match assignment.split_once('=') {
        Some((key, value)) if value.contains(',') && !value.trim_start().starts_with(['[', '{', '"']) => {
            value.split(',').map(|value| format!("{key}={}", value.trim())).collect()
        }
        _ => vec![assignment.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(assignments: &[&str]) -> Result<Vec<Vec<String>>, TooManyVariants> {
        variants(&assignments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn every_combination_is_made_once() {
        assert_eq!(of(&[]), Ok(vec![vec![]]));
        assert_eq!(of(&["a=1"]), Ok(vec![vec!["a=1".to_owned()]]));
        let made = of(&["a=1, 2", "b=x,y,z"]).unwrap();
        let text: Vec<String> = made.iter().map(|variant| variant.join(" ")).collect();
        assert_eq!(text, ["a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"]);
    }

    #[test]
    fn a_list_is_one_value() {
        assert_eq!(of(&["match.stages=[exact, simhash]"]).unwrap().len(), 1);
        assert_eq!(of(&["x"]).unwrap(), [["x"]]);
    }

    #[test]
    fn too_many_combinations_are_refused() {
        let error = of(&["a=1,2,3,4,5,6", "b=1,2,3,4,5,6"]).unwrap_err();
        assert!(error.to_string().starts_with("the values make 36 combinations"), "{error}");
    }
}
