//! Reports of results: text for a terminal, and one page of HTML with charts.

mod charts;
mod columns;
mod growth_columns;
mod html;
mod reliability_columns;
mod svg;
mod tables;
mod text;

pub use html::html;
pub use text::text;
