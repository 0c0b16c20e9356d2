//! The state of a pool on a terminal of any size: a pure function of what the server said.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Row, Table, Wrap};

use crate::protocol::answer::{EventView, HistoryView};
use crate::protocol::state::{MemberView, Percentiles, PoolState, WorkState};
use crate::units;

/// The steps of a chart of characters.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Characters of a chart.
const CHART: usize = 24;
/// From this width on there are charts.
const WIDE: u16 = 110;
/// A request pending for this many seconds is reported.
const HUNG_S: u64 = 5;

/// What is shown.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) state: PoolState,
    pub(crate) history: HistoryView,
    /// The oldest first.
    pub(crate) events: Vec<EventView>,
    /// Why the rest is old.
    pub(crate) trouble: Option<String>,
    /// The first member and the latest event that are visible.
    pub(crate) members_from: usize,
    pub(crate) events_from: usize,
}

impl View {
    /// Scrolls the members; the last one stays visible.
    pub(crate) fn scroll_members(&mut self, by: isize) {
        self.members_from = scrolled(self.members_from, by, self.state.members.len());
    }

    /// Scrolls the events; the first one stays visible.
    pub(crate) fn scroll_events(&mut self, by: isize) {
        self.events_from = scrolled(self.events_from, by, self.events.len());
    }
}

fn scrolled(from: usize, by: isize, count: usize) -> usize {
    from.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View) {
    let state = &view.state;
    let width = frame.area().width;
    let advice = advice(view);
    let advice_height: usize = advice.iter().map(|line| lines_of(line, width)).sum();
    let members = u16::try_from(state.members.len()).unwrap_or(u16::MAX).saturating_add(2);
    let [title, todo, space, table, lower, help] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(advice_height.min(8) as u16),
        Constraint::Length(5),
        Constraint::Max(members),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(headline(state)), title);
    frame.render_widget(Paragraph::new(advice).wrap(Wrap { trim: false }), todo);
    let [left, right] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(space);
    draw_space(frame, state, left);
    draw_work(frame, state, right);
    draw_members(frame, view, table);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(35), Constraint::Percentage(65)]).areas(lower);
    draw_volumes(frame, state, left);
    draw_events(frame, view, right);
    let keys = "q ends; arrows scroll the members, Page Up and Page Down the events";
    frame.render_widget(Paragraph::new(keys).style(quiet()), help);
}

/// Lines that a text takes when it is wrapped between words: some more than its characters would fill.
fn lines_of(line: &Line<'_>, width: u16) -> usize {
    line.width().div_ceil(usize::from(width) * 9 / 10 + 1).max(1)
}

fn quiet() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold(color: Color) -> Style {
    Style::new().fg(color).add_modifier(Modifier::BOLD)
}

fn block(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}

fn headline(state: &PoolState) -> Line<'static> {
    let color = match state.health.as_str() {
        "healthy" => Color::Green,
        "degraded" => Color::Yellow,
        _ => Color::Red,
    };
    Line::from(vec![
        Span::styled(format!("{}  ", state.pool), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(state.health.to_uppercase(), bold(color)),
        Span::raw(format!(
            "  data safe: {}  ({}, {}+{})",
            state.data_safe, state.protection, state.data_columns, state.parity_columns
        )),
    ])
}

fn advice(view: &View) -> Vec<Line<'static>> {
    let trouble = view.trouble.iter().map(|why| Line::styled(format!("OLD: {why}"), bold(Color::Red)));
    let advice = view.state.advice.iter().map(|text| Line::raw(format!("- {text}")));
    let lines: Vec<Line<'static>> = trouble.chain(advice).collect();
    if lines.is_empty() { vec![Line::styled("to do: nothing", quiet())] } else { lines }
}

fn draw_space(frame: &mut Frame<'_>, state: &PoolState, area: Rect) {
    let framed = block("space");
    let inner = framed.inner(area);
    frame.render_widget(framed, area);
    let [gauge, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
    let part = state.stored_bytes as f64 / state.capacity_bytes.max(1) as f64;
    let label = format!("{} of {}", units::bytes(state.stored_bytes), units::bytes(state.capacity_bytes));
    let color = if part > 0.9 { Color::Red } else { Color::Blue };
    let bar = Gauge::default().ratio(part.clamp(0.0, 1.0)).label(label).gauge_style(Style::new().fg(color));
    frame.render_widget(bar, gauge);
    let stripes = &state.stripes;
    let mut lines = vec![
        Line::raw(format!(
            "raw free {} of {}; volumes {} in all",
            units::bytes(state.free_bytes),
            units::bytes(state.raw_bytes),
            units::bytes(state.provisioned_bytes)
        )),
        Line::raw(format!(
            "stripes: {} mirrored, {} parity, {} degraded",
            stripes.mirrored, stripes.parity, stripes.degraded
        )),
    ];
    for space in state.physical.iter().filter(|space| space.overcommitted) {
        let (used, free) = (space.used, space.free.unwrap_or(0));
        let text = format!("physical {} of {}", units::bytes(used), units::bytes(used + free));
        lines.push(Line::raw(text));
    }
    frame.render_widget(Paragraph::new(lines), rest);
}

fn draw_work(frame: &mut Frame<'_>, state: &PoolState, area: Rect) {
    let rate =
        |name: &str| state.per_second.as_ref().and_then(|rates| rates.get(name)).copied().unwrap_or(0.0);
    let clients = format!(
        "clients: {:.0} reads/s ({}), {:.0} writes/s ({})",
        rate("reads"),
        units::bytes(rate("read_bytes") as u64),
        rate("writes") + rate("merges"),
        units::bytes(rate("written_bytes") as u64)
    );
    let mut lines = vec![Line::raw(clients)];
    lines.extend(state.work.iter().map(|work| Line::raw(progress(work))));
    if state.conversions_left > 0 && !state.work.iter().any(|work| work.work == "conversion") {
        lines.push(Line::raw(format!("conversion: {} stripes left", state.conversions_left)));
    }
    if lines.len() == 1 {
        lines.push(Line::styled("no work in the background", quiet()));
    }
    frame.render_widget(Paragraph::new(lines).block(block("activity")), area);
}

fn progress(work: &WorkState) -> String {
    let left =
        work.seconds_left.map(|s| format!(", {} left", humantime::format_duration(Duration::from_secs(s))));
    format!("{} {} %, {} {} left{}", work.work, work.percent, work.left, work.unit, left.unwrap_or_default())
}

fn draw_members(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let is_wide = area.width >= WIDE;
    let mut heads = vec!["", "state", "used", "reads p50/p99", "writes p50/p99", "spikes", "errors"];
    let mut widths = [3, 16, 5, 13, 13, 6, 6].map(Constraint::Length).to_vec();
    if is_wide {
        heads.push("write p99, last minutes");
        widths.push(Constraint::Length(CHART as u16));
    }
    heads.push("path");
    widths.push(Constraint::Min(8));
    let rows = view.state.members.iter().skip(view.members_from).map(|member| {
        let mut cells = cells(member);
        if is_wide {
            let seen = view.history.members.get(member.member);
            cells.push(seen.map(|seen| chart(&seen.write_p99_us)).unwrap_or_default());
        }
        // The end of a path tells devices apart.
        let name = member.path.rsplit('/').next().unwrap_or_default();
        cells.push(if is_wide { member.path.clone() } else { name.to_owned() });
        Row::new(cells).style(style(member))
    });
    let table = Table::new(rows, widths).header(Row::new(heads).style(quiet())).block(block("members"));
    frame.render_widget(table, area);
}

fn cells(member: &MemberView) -> Vec<String> {
    let state = match () {
        () if member.timed_out => format!("{}, timed out", member.state),
        () if member.unanswered_s >= HUNG_S => format!("no answer {} s", member.unanswered_s),
        () if member.slower_than_peers_s > 0 => format!("{}, slow", member.state),
        () if member.response != "responsive" => format!("{}, {}", member.state, member.response),
        () => member.state.clone(),
    };
    let used = member.chunks_used * 100 / member.chunks.max(1);
    vec![
        member.member.to_string(),
        state,
        format!("{used} %"),
        latency(member.read_latency_us.as_ref()),
        latency(member.write_latency_us.as_ref()),
        member.spikes.to_string(),
        (member.read_errors + member.checksum_errors).to_string(),
    ]
}

fn style(member: &MemberView) -> Style {
    let is_slow = member.response != "responsive" || member.slower_than_peers_s > 0;
    match member.state.as_str() {
        "active" | "spare" if is_slow => Style::new().fg(Color::Yellow),
        "active" | "spare" => Style::new(),
        "removed" => quiet(),
        _ => bold(Color::Red),
    }
}

fn latency(of: Option<&Percentiles>) -> String {
    of.map_or("-".to_owned(), |of| format!("{}/{}", short(of.p50), short(of.p99)))
}

/// A time in microseconds, in few characters.
fn short(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{:.1}ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{:.1}s", us as f64 / 1e6),
    }
}

/// The latest values as a line of characters, each the highest of its part; a space where there are none.
fn chart(values: &[Option<u64>]) -> String {
    let top = values.iter().copied().flatten().max().unwrap_or(0).max(1);
    let part = values.len().div_ceil(CHART).max(1);
    let highest = |values: &[Option<u64>]| values.iter().copied().flatten().max();
    let step = |value: u64| STEPS[(value * (STEPS.len() as u64 - 1) / top) as usize];
    values.rchunks(part).rev().map(|values| highest(values).map_or(' ', step)).collect()
}

fn draw_volumes(frame: &mut Frame<'_>, state: &PoolState, area: Rect) {
    let rows = state.volumes.iter().map(|volume| {
        let used = volume.used_bytes.map_or("-".to_owned(), units::bytes);
        let clients = volume.connections.to_string();
        Row::new(vec![volume.name.clone(), units::bytes(volume.bytes), used, clients])
    });
    let widths = [Constraint::Min(6), Constraint::Length(9), Constraint::Length(9), Constraint::Length(8)];
    let heads = Row::new(["name", "size", "used", "clients"]).style(quiet());
    frame.render_widget(Table::new(rows, widths).header(heads).block(block("volumes")), area);
}

fn draw_events(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let line = |event: &EventView| {
        let style = match event.severity.as_str() {
            "error" => Style::new().fg(Color::Red),
            "warning" => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        // The time of the day of an RFC 3339 time.
        let time = event.time.get(11..19).unwrap_or_default();
        Line::from(vec![Span::styled(format!("{time} "), quiet()), Span::styled(event.text.clone(), style)])
    };
    let lines: Vec<Line<'_>> = view.events.iter().rev().skip(view.events_from).map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(block("events, the latest first")), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::protocol::answer::MemberHistory;
    use crate::protocol::state::{StripeCounts, VolumeView};

    fn view() -> View {
        let member = |member| MemberView {
            member,
            path: format!("/dev/disk/by-id/nvme-{member}"),
            state: if member == 2 { "failed" } else { "active" }.to_owned(),
            response: "responsive".to_owned(),
            chunks: 200,
            chunks_used: 50,
            write_latency_us: Some(Percentiles { p50: 90, p99: 2500, p999: 40_000 }),
            ..MemberView::default()
        };
        let history = |member| MemberHistory {
            member,
            write_p99_us: (0..120).map(Some).collect(),
            read_p99_us: vec![None; 120],
            spikes: vec![0; 120],
        };
        let event = |number, severity: &str, text: &str| EventView {
            number,
            time: "2026-11-24T07:35:27.120Z".to_owned(),
            severity: severity.to_owned(),
            text: text.to_owned(),
            ..EventView::default()
        };
        let state = PoolState {
            pool: "tank".to_owned(),
            health: "at risk".to_owned(),
            data_safe: "yes, but the loss of one more member may lose data".to_owned(),
            advice: vec!["member 2 out: bring it back".to_owned()],
            protection: "parity1".to_owned(),
            data_columns: 3,
            parity_columns: 1,
            stored_bytes: 1 << 30,
            capacity_bytes: 4 << 30,
            stripes: StripeCounts { mirrored: 7, parity: 12, degraded: 5, ..StripeCounts::default() },
            members: (0..5).map(member).collect(),
            volumes: vec![VolumeView {
                name: "vol".to_owned(),
                bytes: 2 << 30,
                used_bytes: Some(3 << 20),
                connections: 1,
                ..VolumeView::default()
            }],
            work: vec![WorkState {
                work: "rebuild".to_owned(),
                unit: "chunks".to_owned(),
                left: 30,
                percent: 70,
                seconds_left: Some(90),
                ..WorkState::default()
            }],
            ..PoolState::default()
        };
        View {
            state,
            history: HistoryView {
                step_s: 5,
                members: (0..5).map(history).collect(),
                ..HistoryView::default()
            },
            events: vec![
                event(1, "info", "the pool is open"),
                event(2, "warning", "member 2 failed and is out"),
            ],
            ..View::default()
        }
    }

    /// The lines of a terminal of this size.
    fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, view)).expect("a drawing");
        let buffer = terminal.backend().buffer().clone();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    fn has(lines: &[String], text: &str) -> bool {
        lines.iter().any(|line| line.contains(text))
    }

    #[test]
    fn everything_is_shown_on_a_wide_terminal() {
        let lines = drawn(&view(), 130, 30);
        for text in [
            "tank  AT RISK  data safe: yes, but the loss of one more member may lose data  (parity1, 3+1)",
            "- member 2 out: bring it back",
            "1 GiB of 4 GiB",
            "stripes: 7 mirrored, 12 parity, 5 degraded",
            "rebuild 70 %, 30 chunks left, 1m 30s left",
            "90us/2.5ms",
            "▁",
            "/dev/disk/by-id/nvme-4",
            "vol",
            "3 MiB",
            "07:35:27 member 2 failed and is out",
        ] {
            assert!(has(&lines, text), "{text}: {lines:#?}");
        }
        let place = |text: &str| lines.iter().position(|line| line.contains(text));
        assert!(place("member 2 failed and is out") < place("the pool is open"), "the latest is first");
    }

    #[test]
    fn small_terminals_and_old_states_are_shown_too() {
        let mut view = view();
        view.trouble = Some("the server does not answer".to_owned());
        view.scroll_members(3);
        let lines = drawn(&view, 80, 24);
        assert!(has(&lines, "OLD: the server does not answer"), "{lines:#?}");
        assert!(has(&lines, "failed") && !has(&lines, "nvme-2") && has(&lines, "nvme"), "{lines:#?}");
        assert!(!has(&lines, "▁"), "there is no room for charts");
        drawn(&view, 20, 5);
        drawn(&View::default(), 1, 1);
    }

    #[test]
    fn a_chart_has_the_highest_of_each_part() {
        assert_eq!(chart(&[]), "");
        assert_eq!(chart(&[Some(0), Some(7), None]), "▁█ ");
        let values: Vec<Option<u64>> = (0..120).map(|i| Some(u64::from(i == 119))).collect();
        assert_eq!(chart(&values), "▁".repeat(23) + "█");
    }
}
