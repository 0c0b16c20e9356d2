//! `sinew generate`: manual pages, completions and the schema of the control socket, from their definitions in the program.
//! Packages are made with it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Command, Subcommand};
use clap_complete::Shell;

use crate::out::{say, stream};
use crate::protocol::schema::schema;
use crate::report::reference;

/// Generate manual pages and completions of the command line, and the schema of the control socket.
#[derive(Subcommand)]
pub(crate) enum GenerateCommand {
    /// Prints the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints the JSON Schema of the requests and answers of the control socket.
    Schema,
    /// Prints the reference of all commands as Markdown.
    Reference,
    /// Writes the manual pages of all commands into a directory.
    Man {
        /// The directory, which is made if it does not exist.
        dir: PathBuf,
    },
}

/// Runs the command. `sinew` is the whole command line.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn run(command: GenerateCommand, mut sinew: Command) -> Result<()> {
    match command {
        GenerateCommand::Completions { shell } => stream(|to| {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut sinew, "sinew", &mut text);
            to.write_all(&text)
        }),
        GenerateCommand::Schema => {
            say!("{:#}", schema());
            Ok(())
        }
        GenerateCommand::Reference => {
            say!("{}", reference(sinew).trim_end());
            Ok(())
        }
        GenerateCommand::Man { dir } => {
            std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            clap_mangen::generate_to(sinew, &dir)
                .with_context(|| format!("cannot write into {}", dir.display()))?;
            say!("wrote the manual pages into {}", dir.display());
            Ok(())
        }
    }
}
