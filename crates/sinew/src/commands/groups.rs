//! The groups in which `sinew --help` lists the commands.

use clap::Command;

/// Headings, and the commands below each.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Pools", &["up", "serve", "pool", "array", "volume", "member", "ublk"]),
    ("State", &["top", "events", "metrics", "topology", "layout"]),
    ("Upkeep and settings", &["scrub", "throttle", "latency", "policy"]),
    ("Measurement and tests", &["bench", "replay", "workload", "torture", "experiment", "scaling"]),
];

/// The template of the help, in which the groups stand for clap's list of commands.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n{before-help}Options:\n{options}\n";

/// The command with its help in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let list = list(&command);
    command.help_template(TEMPLATE).before_help(list)
}

/// The commands below their headings, each with the first line of its help.
fn list(command: &Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text += &format!("\n{heading}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {name:width$}  {}\n", about.trim_end_matches('.'));
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Sinew;

    /// Longest first line of a command's help, in characters.
    const ABOUT_MAX: usize = 65;

    #[test]
    fn each_command_is_in_one_group() {
        let command = Sinew::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut there: Vec<&str> =
            command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        listed.sort_unstable();
        there.sort_unstable();
        assert_eq!(listed, there);
    }

    #[test]
    fn the_first_line_of_a_help_is_short() {
        let command = Sinew::command();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.chars().count() <= ABOUT_MAX, "{}: {about}", sub.get_name());
        }
    }
}
