//! Reports of results: text for a terminal, and one page of HTML with charts.

mod charts;
mod growth_columns;
mod html;
mod svg;
mod tables;
mod text;

pub use html::html;
pub use text::text;
