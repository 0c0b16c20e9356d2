//! The names of the formats.

use serde::{Deserialize, Serialize};

/// The formats. docs/workloads.md shows a line of each, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// MSR Cambridge: `ticks,host,disk,Read|Write,offset,bytes,response`; a tick is 100 ns.
    Msr,
    /// SPC (Financial, WebSearch): `asu,sector,bytes,r|w,seconds`.
    Spc,
    /// Tencent CBS: `seconds,sector,sectors,0|1,volume`; 1 is a write.
    Tencent,
    /// With a header: `ts_us,dev,op,offset_bytes,size_bytes`; op is R, W, D or F.
    Normalised,
    /// blkparse's default output; requests are the events of action Q.
    Blkparse,
    /// fio's log, version 2 or 3.
    Iolog,
    /// VSCSI records of CloudPhysics as text: `version us opcode bytes sector`.
    VscsiText,
    /// MQSim: `ns device sector sectors op`; 1 is a read.
    Mqsim,
    /// Cuts of traces by Heimdall: `ms device offset bytes op`; 1 is a read.
    Heimdall,
    /// DiskSim ASCII: `ms device sector sectors flags`; bit 0 is a read.
    Disksim,
    /// VSCSI records of CloudPhysics, binary, version 1 or 2.
    Vscsi,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 11] = [
        Format::Msr,
        Format::Spc,
        Format::Tencent,
        Format::Normalised,
        Format::Blkparse,
        Format::Iolog,
        Format::VscsiText,
        Format::Mqsim,
        Format::Heimdall,
        Format::Disksim,
        Format::Vscsi,
    ];

    /// Its name in a description.
    pub fn name(self) -> &'static str {
        match self {
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Tencent => "tencent",
            Format::Normalised => "normalised",
            Format::Blkparse => "blkparse",
            Format::Iolog => "iolog",
            Format::VscsiText => "vscsi-text",
            Format::Mqsim => "mqsim",
            Format::Heimdall => "heimdall",
            Format::Disksim => "disksim",
            Format::Vscsi => "vscsi",
        }
    }
}
