//! The form of groups of an array's log.

use sinew_format::named;

/// How groups with much data are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupForm {
    /// In the form that has been faster lately.
    #[default]
    Auto,
    /// Whole, to f + 1 members.
    Copies,
    /// Dealt over the members of a stripe, with parity, wherever that is possible.
    Striped,
}

named! {
    GroupForm, "form of groups":
    GroupForm::Auto => "auto", "The form that has been faster lately";
    GroupForm::Copies => "copies", "Whole, to as many members as a copy needs";
    GroupForm::Striped => "striped", "Dealt over the members of a stripe, with parity";
}
