//! `sinew top`: the running pool in a terminal, as the page shows it to browsers.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::client::Target;
use crate::protocol::Request;
use crate::protocol::answer::EventList;
use crate::report::top::{View, draw};
use crate::units;

/// Live view of the running pool in the terminal.
///
/// Shows health, members with their latencies of the last ten minutes, space, background work, volumes and events.
/// The arrow keys scroll the members, Page Up and Page Down the events; q ends.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// Time between two looks at the pool.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::parse_time)]
    interval: Duration,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the output is no terminal, or the server cannot be reached at first.
pub(crate) fn run(args: &TopArgs) -> Result<()> {
    if !io::stdout().is_terminal() {
        bail!("the output is no terminal; `sinew pool status --watch` prints the state again and again");
    }
    let mut view = View::default();
    look(&args.target, &mut view)?;
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let shown = show(&mut terminal, args, &mut view);
    ratatui::restore();
    shown
}

fn show(terminal: &mut DefaultTerminal, args: &TopArgs, view: &mut View) -> Result<()> {
    let mut looked = Instant::now();
    loop {
        terminal.draw(|frame| draw(frame, view))?;
        let left = args.interval.saturating_sub(looked.elapsed());
        if event::poll(left)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !press(key, view)
            {
                return Ok(());
            }
        } else {
            // What was seen last stays, with the reason why it is old.
            view.trouble = look(&args.target, view).err().map(|error| format!("{error:#}"));
            looked = Instant::now();
        }
    }
}

/// Whether the command goes on after this key.
fn press(key: KeyEvent, view: &mut View) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Down | KeyCode::Char('j') => view.scroll_members(1),
        KeyCode::Up | KeyCode::Char('k') => view.scroll_members(-1),
        KeyCode::PageDown => view.scroll_events(5),
        KeyCode::PageUp => view.scroll_events(-5),
        _ => {}
    }
    true
}

/// Asks the server.
fn look(target: &Target, view: &mut View) -> Result<()> {
    view.state = serde_json::from_value(target.ask(&Request::Status)?)?;
    view.history = serde_json::from_value(target.ask(&Request::History)?)?;
    let after = view.events.last().map_or(0, |event| event.number);
    let new: EventList = serde_json::from_value(target.ask(&Request::Events { after, wait: false })?)?;
    if new.last < after {
        // The server was started again, so its numbers begin anew.
        view.events.clear();
    }
    view.events.extend(new.events);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::state::MemberView;

    #[test]
    fn keys_scroll_and_end() {
        let mut view = View::default();
        view.state.members = vec![MemberView::default(); 3];
        let mut key = |code| press(KeyEvent::new(code, KeyModifiers::NONE), &mut view);
        assert!(key(KeyCode::Up) && key(KeyCode::Down) && key(KeyCode::Down) && key(KeyCode::Down));
        assert!(!key(KeyCode::Char('q')) && !key(KeyCode::Esc));
        assert!(!press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), &mut view));
        assert_eq!(view.members_from, 2, "the last member stays visible");
    }
}
