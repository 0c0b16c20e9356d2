//! The I/O topology of a machine: which drive hangs where, how fast each link on the way to the processors is, and which link
//! holds the drives back.
//!
//! Everything is read from sysfs, or from a copy of one: no library, no privilege, no clock. What sysfs does not say is unknown,
//! never zero. No content of a file makes this code panic. Measurements are taken elsewhere; [`judgement`] says which sets of drives
//! to read from, and what the results mean.
//!
//! The modules, from the lowest to the highest; each uses only modules above it:
//!
//! ```text
//! rate       speeds of PCIe, SATA and SAS links
//! sysfs      files and links below a root directory
//! tree       machine, NUMA node, ports, switches, controllers, drives
//! discover   the tree from sysfs
//! share      max-min fair rates of drives that share links
//! findings   what is slower than it could be, and what to do
//! judgement  sets of drives to measure, and the link that limits them
//! report     text for people
//! ```

pub mod discover;
pub mod findings;
pub mod judgement;
pub mod rate;
pub mod report;
pub mod share;
pub mod sysfs;
pub mod tree;
