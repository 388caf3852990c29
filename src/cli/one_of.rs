//! Arguments that are one of a closed set of values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses one of these values by its name. `--help` lists them with `help`.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let listed = values.iter().map(|value| PossibleValue::new(name(*value)).help(help(*value)));
    PossibleValuesParser::new(listed).try_map(move |given| {
        let found = values.iter().copied().find(|value| name(*value) == given);
        found.ok_or("not one of the listed values")
    })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;
    use crate::protocol::VerdictKind;

    #[test]
    fn a_value_is_parsed_by_its_name_and_listed_with_its_help() {
        let help = |kind| if kind == VerdictKind::Near { "similar text" } else { "" };
        let parser = one_of(&VerdictKind::ALL, VerdictKind::name, help);
        let command = Command::new("c").arg(Arg::new("verdict").value_parser(parser));
        for kind in VerdictKind::ALL {
            let matches = command.clone().try_get_matches_from(["c", kind.name()]).unwrap();
            assert_eq!(matches.get_one("verdict"), Some(&kind));
        }
        let refused = command.clone().try_get_matches_from(["c", "dead"]).unwrap_err().to_string();
        assert!(refused.contains("[possible values: unique, update,"), "{refused}");
        let shown = command.clone().render_long_help().to_string();
        assert!(shown.contains("- near:      similar text"), "{shown}");
    }
}
