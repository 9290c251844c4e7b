//! A stack with real data: creates, opens, serves, checks and closes volumes.
#![forbid(unsafe_code)]

mod admin;
mod change;
mod metadata;
mod open;
mod running;
mod util;

pub use admin::check::{CheckOptions, Checked, Verdict, check, check_with};
pub use admin::create::{CreateSpec, Created, create, create_with, rehearse};
pub use admin::delete::delete;
pub use admin::dump::{
    BackedUp, ClaimText, DeviceDump, Dump, Found, MarkText, RestoreSpec, Restored, RootText,
    SuperblockText, back_up, dump, restore,
};
pub use admin::import::{Imported, import};
pub use admin::members::{Returned, add, online, replace};
pub use admin::operate::clear;
pub use admin::operate::set;
pub use admin::operate::{operate, operate_here};
pub use admin::replay::{Replayed, replay};
pub use admin::request::{AdminRequest, Outcome};
pub use admin::serve::{Running, StatusHandle};
pub use admin::status::list::{Listed, list};
pub use admin::status::status;
pub use admin::status::{EventList, events};
pub use change::add::{AddSpec, Added};
pub use change::replace::{ReplaceSpec, Replaced};
pub use hostftl_io::{Access, protect};
pub use metadata::config::Config;
pub use metadata::record::RecordOptions;
pub use open::gather::OpenOptions;
pub use open::inspect::sweep::{DataRead, Progress};
pub use open::names::DeviceId;
pub use open::options::{Acks, StartOptions};
pub use open::options::{Reach, Service};
pub use open::volume::{Volume, open, open_with};
pub use running::front;
pub use running::front::ram::ram_port;
pub use running::status::drive::DriveStatus;
pub use running::status::latency::{Latency, LatencyBucket};
pub use running::status::memory::Memory;
pub use running::status::shadow::{ShadowCandidate, ShadowStatus};
pub use running::status::space::Space;
pub use running::status::tasks::{TaskStatus, supported_tasks};
pub use running::status::traffic::{Sent, Traffic, WafStep};
pub use running::status::{DeviceStatus, Status, VolumeFile, VolumeState};
pub use util::busy::find_user;
pub use util::error::{AdminError, AdminErrorKind, Error};
pub use util::events::{Event, Events, KINDS, Level, Sink};
pub use util::start_progress::{Recovering, StartProgress};
