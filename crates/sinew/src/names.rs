//! Options whose values have names, and texts for what has no name of its own. The types declare their names themselves.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sinew_format::model::array_geometry::{Access, ArrayGeometry};
use sinew_layout::names::{Named, parse};
use sinew_members::latency::SpikeAvoidance;

/// Parses an option that takes a name. Help and errors list the names, in their short spelling if there is one.
pub(crate) fn named<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    named_but::<T>(|_| false)
}

/// Parses an option that takes a mode of spike avoidance. `watch` is for simulations, which compare with it.
pub(crate) fn spike_avoidance() -> impl TypedValueParser<Value = SpikeAvoidance> {
    named_but(|mode| mode == SpikeAvoidance::Watch)
}

fn named_but<T: Named + Send + Sync>(is_left_out: fn(T) -> bool) -> impl TypedValueParser<Value = T> {
    let offered = T::NAMES.iter().filter(|entry| !is_left_out(entry.value));
    let values = offered.map(|entry| {
        let value = PossibleValue::new(entry.short.unwrap_or(entry.name)).help(entry.help);
        if entry.short.is_some() { value.alias(entry.name) } else { value }
    });
    PossibleValuesParser::new(values).try_map(|name| parse::<T>(&name))
}

/// How an array of md's is served.
pub(crate) fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
    }
}

/// The protection of an array's stripes against a crash, in a few words.
pub(crate) fn journal_text(array: &ArrayGeometry) -> &'static str {
    match (array.parity_columns(), array.journal) {
        (0, _) => "no parity",
        (_, true) => "with journal",
        (_, false) => "no journal, write hole open",
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};
    use sinew_layout::LevelName;

    use super::*;

    fn option<T: Clone + Send + Sync + 'static>(
        parser: impl TypedValueParser<Value = T>,
        value: &str,
    ) -> Result<T, String> {
        let command = Command::new("x").arg(Arg::new("option").value_parser(parser));
        let matches = command.try_get_matches_from(["x", value]).map_err(|error| error.to_string())?;
        Ok(matches.get_one::<T>("option").expect("a value was given").clone())
    }

    #[test]
    fn an_option_takes_both_spellings_and_lists_the_short_ones() {
        assert_eq!(option(named::<LevelName>(), "5"), Ok(LevelName::Raid5));
        assert_eq!(option(named::<LevelName>(), "raid5"), Ok(LevelName::Raid5));
        let error = option(named::<LevelName>(), "4").unwrap_err();
        assert!(error.contains("[possible values: 0, 1, 10, 5, 6, 50, 60]"), "{error}");
    }

    #[test]
    fn watch_is_not_offered() {
        assert_eq!(option(spike_avoidance(), "auto"), Ok(SpikeAvoidance::Auto));
        let error = option(spike_avoidance(), "watch").unwrap_err();
        assert!(error.contains("[possible values: off, auto, consumer, datacenter, fusionraid]"), "{error}");
    }
}
