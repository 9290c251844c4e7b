//! Groups the commands in `hostftl --help`, which clap does not support.

use std::fmt::Write;

use clap::Command;

/// Groups of commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Study",
        &[
            "compare",
            "sweep",
            "advise",
            "shadow",
            "paper",
            "targets",
            "layers",
            "models",
            "calibrate",
        ],
    ),
    (
        "Volume",
        &["create", "serve", "list", "status", "top", "events", "set", "import", "delete", "ublk"],
    ),
    ("Devices", &["device", "probe", "wait", "estimate-memory"]),
    ("Repair", &["check", "scrub", "clear", "dump"]),
    ("Traces", &["trace", "replay"]),
    ("Other", &["demo", "completions", "help"]),
];

/// Returns whether this build has the command.
fn is_built(name: &str) -> bool {
    name != "paper" || cfg!(feature = "paper")
}

/// Returns `command` with its subcommands grouped in the help.
pub(crate) fn grouped(command: Command) -> Command {
    let mut list = String::new();
    for (group, names) in GROUPS {
        let _ = writeln!(list, "{group}:");
        for name in names.iter().filter(|it| is_built(it)) {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or("Print help for a command".into(), ToString::to_string);
            let _ = writeln!(list, "  {name:<15} {about}");
        }
        list.push('\n');
    }
    let head = "{about-with-newline}\n{usage-heading} {usage}\n\n";
    command.help_template(format!("{head}{list}Options:\n{{options}}{{after-help}}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn each_visible_command_is_in_one_group_and_fits_a_line() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).chain(["help"]).collect();
        let grouped = GROUPS.iter().flat_map(|(_, names)| *names).copied();
        let mut grouped: Vec<&str> = grouped.filter(|it| is_built(it)).collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
        for it in command.get_subcommands() {
            let about = it.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((1..=80).contains(&about.len()), "{}: {about}", it.get_name());
        }
    }

    #[test]
    fn each_command_ends_its_help_with_an_example() {
        fn check(command: &Command, name: &str) {
            let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(example.contains("Example: "), "{name} has no example");
            let below = command.get_subcommands().filter(|_| name != "hostftl ublk");
            below.for_each(|it| check(it, &format!("{name} {}", it.get_name())));
        }
        check(&Cli::command(), "hostftl");
    }
}
