//! Pages for people: one HTML file that needs nothing else, for a screen, a phone or paper. And
//! [`Sheet`]s for other programs.
//!
//! Charts are SVG that is written here, and nothing is fetched. One small script sorts tables by a
//! click on a head; without it a page shows the same. Colours follow the reader's light or dark
//! screen and stay apart for the colour-blind; lines also differ by their dashes, so that black and
//! white is enough.
//!
//! ```
//! use hostftl_report::{Axis, Bars, Lines, Page, Table};
//!
//! let whole = |value: f64| format!("{value:.0}");
//! let mut table = Table::new(&["layer", "waf"]);
//! table.row(["none", "4.12"]);
//! let bars = Bars::new("Programs by cause", &["none", "hard"], whole)
//!     .series("host", &[1.0, 1.0])
//!     .series("collection", &[3.1, 0.4])
//!     .stacked();
//! let lines = Lines::new("Latency", Axis::log("µs", whole), Axis::linear("share", whole))
//!     .series("hard", vec![(10.0, 0.5), (100.0, 0.9)]);
//! let mut page = Page::new("A study");
//! page.lead("hard pays here.").section("Results").table(&table);
//! page.figures([bars.figure(), lines.figure()]);
//! assert!(page.finish().starts_with("<!DOCTYPE html>"));
//! ```
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod columns;
mod figure;
mod lines;
mod page;
mod sheet;
mod svg;
mod table;

pub use axis::{Axis, Show};
pub use bars::Bars;
pub use columns::Columns;
pub use figure::Figure;
pub use lines::Lines;
pub use page::Page;
pub use sheet::{Sheet, Values};
pub use table::Table;
