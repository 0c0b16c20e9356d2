//! Deliberate defects, which the tests must find. Without the feature `mutations` there are none.

/// A deliberate defect of a redundancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A row is erased before a parity over what was moved out of it is written.
    EraseBeforeParity,
    /// A stripe uses a die twice.
    ReuseDie,
    /// A parity is formed before the last unit of data has entered its stripe.
    FormParityEarly,
    /// A stripe stays open after its full parity, which does not cover what follows.
    ForgetLaterData,
    /// A change of a RAID-5 block is forgotten while the parity of the change before is being written.
    ForgetOverwrite,
    /// Old copies of RAID-5 blocks are given up at once.
    DropOldCopies,
    /// Old copies of RAID-5 blocks are given up when the new parity has a place, before it is on flash.
    FreeOldCopiesEarly,
    /// P_wait is counted from the first data of a stripe.
    WaitFromFirst,
    /// The parity of a full RAID-5 stripe waits until its unit is full, however long that takes.
    WaitForFullUnit,
    /// A batch keeps back the rest of a full elastic stripe after P_wait.
    KeepInBatch,
    /// A row of the SLC cache is folded while a unit of it is still being filled.
    FoldUnfilled,
    /// Reads of blocks that were lost with a die end as if the blocks were there.
    HideLoss,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 12] = [
        Defect::EraseBeforeParity,
        Defect::ReuseDie,
        Defect::FormParityEarly,
        Defect::ForgetLaterData,
        Defect::ForgetOverwrite,
        Defect::DropOldCopies,
        Defect::FreeOldCopiesEarly,
        Defect::WaitFromFirst,
        Defect::WaitForFullUnit,
        Defect::KeepInBatch,
        Defect::FoldUnfilled,
        Defect::HideLoss,
    ];
}

#[cfg(feature = "mutations")]
thread_local! {
    static PRESENT: std::cell::Cell<Option<Defect>> = const { std::cell::Cell::new(None) };
}

/// Gives the drives of this thread a defect, or none.
#[cfg(feature = "mutations")]
pub fn set_defect(defect: Option<Defect>) {
    PRESENT.set(defect);
}

/// Whether drives have a defect.
#[cfg(feature = "mutations")]
#[inline]
pub(super) fn has(defect: Defect) -> bool {
    PRESENT.get() == Some(defect)
}

/// Whether drives have a defect: they have none.
#[cfg(not(feature = "mutations"))]
#[inline]
pub(super) const fn has(_: Defect) -> bool {
    false
}
