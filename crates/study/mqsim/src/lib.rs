//! Import of MQSim's XML files: the configuration of a drive becomes the text of a drive model, and
//! a definition of workloads becomes flows.
//!
//! The keys and their meaning are those of MQSim's README and of `src/exec` (Tavakkol et al.,
//! "MQSim: A Framework for Enabling Realistic Studies of Modern Multi-Queue SSD Devices", FAST
//! 2018). A setting without a counterpart is reported with its line and the reason, and so is a key
//! that MQSim itself does not have.
//!
//! ```
//! let flows = hostftl_mqsim::scenarios(
//!     "<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based>\
//!      <File_Path>a.trace</File_Path><Time_Unit>NANOSECOND</Time_Unit>\
//!      </IO_Flow_Parameter_Set_Trace_Based></IO_Scenario></MQSim_IO_Scenarios>",
//! );
//! assert_eq!(flows.expect("it is well formed")[0].len(), 1);
//! ```
#![forbid(unsafe_code)]

mod drive;
mod keys;
mod work;

use roxmltree::{Document, Error, Node};
use thiserror::Error;

pub use drive::{Drive, drive};
pub use work::{Addresses, Flow, Kind, Made, Played, Rate, TimeUnit, scenarios};

/// Name of the root element of a drive's file.
const DRIVE: &str = "Execution_Parameter_Set";
/// Name of the root element of a file of workloads.
const WORK: &str = "MQSim_IO_Scenarios";

/// Reason why a file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {why}")]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// Reason.
    pub why: String,
}

/// Parses a document whose root element must have the name `root`.
fn document<'a>(text: &'a str, root: &str) -> Result<Document<'a>, Fault> {
    // Editors on Windows insert a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::parse(text).map_err(|error| Fault {
        line: match error {
            // The error of a missing end tag has no position, so the last line is reported.
            Error::UnclosedRootNode => text.lines().count().max(1),
            _ => error.pos().row as usize,
        },
        why: format!("not an XML file: {}", on_one_line(&error.to_string())),
    })?;
    let found = document.root_element();
    let why = match found.tag_name().name() {
        name if name == root => return Ok(document),
        DRIVE => "this is an MQSim configuration of a drive; use it with --drive".to_owned(),
        WORK => "this is an MQSim definition of workloads; use it as a trace".to_owned(),
        other => format!("the root element must be {root}, not {other}"),
    };
    let line = line(&found);
    Err(Fault { line, why })
}

/// Replaces line ends and other control characters by spaces.
fn on_one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Returns the line at which an element begins.
fn line(node: &Node) -> usize {
    node.document().text_pos_at(node.range().start).row as usize
}
