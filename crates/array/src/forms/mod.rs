//! The forms of an elastic array's stripes, and the pages that keep them on the members.
//!
//! A change of forms takes effect here once the group of the log with its record is durable, so a page never has a change that
//! a crash could take back. (If the flush for it fails, it takes effect all the same, and a flush precedes all that depends on
//! it.) The log keeps the group until the page is durable. In an array that is not elastic every stripe has
//! the one form of its level.

pub(crate) mod heat;
pub(crate) mod pages;
pub(crate) mod table;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Kick;
use sinew_format::form_page::{FORMS_PER_PAGE, FormPageHeader, encode_form_page};
use sinew_format::model::form::Form;

use crate::forms::heat::Heat;
use crate::forms::pages::FormPages;
use crate::forms::table::FormTable;
use crate::state::ShardState;

/// The forms of a shard.
pub(crate) struct Forms<I> {
    state: Rc<ShardState<I>>,
    table: RefCell<FormTable>,
    pages: RefCell<FormPages>,
    /// Stripes whose unused units may hold something.
    untidy: RefCell<BTreeSet<u64>>,
    tidy_wanted: Kick,
    /// Wakes the task that converts stripes.
    conversion_wanted: Kick,
    /// Changes of forms under way in each region.
    changing: RefCell<BTreeMap<usize, u32>>,
    /// The record of a change that took effect may not be durable, because a flush failed.
    unsure: Cell<bool>,
    /// The form of stripes that are written for the first time.
    first: Cell<Form>,
    heat: Heat,
    /// The task that converts stripes sleeps until a client uses one.
    sleeps: Cell<bool>,
    /// Blocks of the largest write that waits for physical space, and the signal that there is one.
    waiting_blocks: Cell<u64>,
    pressed: Kick,
}

/// A change of the form of stripes that is under way. Dropping it ends it, and has the stripes tidied.
pub(crate) struct FormChange<'a, I: Io> {
    forms: &'a Forms<I>,
    stripes: Vec<u64>,
    regions: Vec<usize>,
}

impl<I: Io> FormChange<'_, I> {
    /// The stripes use all that was written to them.
    pub(crate) fn leaves_nothing(&mut self) {
        self.stripes.clear();
    }

    /// The regions of the stripes.
    pub(crate) fn regions(&self) -> &[usize] {
        &self.regions
    }
}

impl<I: Io> Drop for FormChange<'_, I> {
    fn drop(&mut self) {
        self.forms.note_untidy(std::mem::take(&mut self.stripes));
        let mut changing = self.forms.changing.borrow_mut();
        for region in &self.regions {
            let count = changing.get_mut(region).expect("counted when it began");
            *count -= 1;
            if *count == 0 {
                changing.remove(region);
            }
        }
    }
}

/// A form page about to be written.
pub(crate) struct PageWrite {
    pub(crate) offset: u64,
    pub(crate) content: Buf,
}

impl<I: Io> Forms<I> {
    /// The forms as recovery found them.
    pub(crate) fn new(state: &Rc<ShardState<I>>, table: FormTable, pages: FormPages) -> Forms<I> {
        Forms {
            state: Rc::clone(state),
            table: RefCell::new(table),
            pages: RefCell::new(pages),
            untidy: RefCell::default(),
            tidy_wanted: Kick::default(),
            conversion_wanted: Kick::default(),
            changing: RefCell::default(),
            unsure: Cell::default(),
            first: Cell::new(Form::Parity),
            heat: Heat::new(if state.layout().is_elastic() { state.layout().stripes } else { 0 }),
            sleeps: Cell::new(false),
            waiting_blocks: Cell::new(0),
            pressed: Kick::default(),
        }
    }

    /// The form of a stripe.
    pub(crate) fn get(&self, stripe: u64) -> Form {
        let layout = self.state.layout();
        if layout.is_elastic() { self.table.borrow().get(stripe) } else { layout.fixed_form() }
    }

    /// Number of stripes of a form.
    pub(crate) fn count(&self, form: Form) -> u64 {
        let layout = self.state.layout();
        match layout.is_elastic() {
            true => self.table.borrow().count(form),
            false if form == layout.fixed_form() => layout.stripes,
            false => 0,
        }
    }

    /// The first stripe of a form from `from` on, going around.
    pub(crate) fn next_of(&self, form: Form, from: u64) -> Option<u64> {
        self.table.borrow().next_of(form, from)
    }

    /// The form of stripes that are written for the first time.
    pub(crate) fn first(&self) -> Form {
        self.first.get()
    }

    /// Sets the form of stripes that are written for the first time from now on.
    pub(crate) fn set_first(&self, form: Form) {
        self.first.set(form);
    }

    /// A group of the log has the record that these stripes change their form.
    pub(crate) fn note_logged(&self, stripes: impl Iterator<Item = u64>, group: u64) {
        stripes.for_each(|stripe| self.pages.borrow_mut().note_logged(page_of(stripe), group));
    }

    /// The record of this change is durable: the stripe has its new form.
    pub(crate) fn apply(&self, stripe: u64, form: Form) {
        if self.get(stripe) != Form::Empty {
            // Before the stripe's lock is released: a task that tidies has not waited for the reads of the former form.
            self.note_untidy([stripe]);
        }
        self.table.borrow_mut().set(stripe, form);
        self.pages.borrow_mut().note_applied(page_of(stripe));
        self.conversion_wanted.kick();
    }

    /// Has the task that converts stripes look for work.
    pub(crate) fn wake_conversion(&self) {
        self.conversion_wanted.kick();
    }

    /// Resolves when there are stripes to be converted, perhaps.
    pub(crate) async fn wait_for_change(&self) {
        self.conversion_wanted.kicked().await;
    }

    /// Which stripes were used lately.
    pub(crate) fn heat(&self) -> &Heat {
        &self.heat
    }

    /// A client's request uses a stripe of an elastic array.
    pub(crate) fn note_use(&self, stripe: u64, writes: bool) {
        self.heat.note(stripe, self.get(stripe) == Form::Mirrored, writes);
        if self.sleeps.take() {
            self.conversion_wanted.kick();
        }
    }

    /// Has the next use of a stripe wake the task that converts stripes.
    pub(crate) fn sleep_until_used(&self) {
        self.sleeps.set(true);
    }

    /// A client's write of this number of blocks waits for physical space.
    pub(crate) fn note_waiting(&self, blocks: u64) {
        self.waiting_blocks.set(self.waiting_blocks.get().max(blocks));
        self.pressed.kick();
        self.conversion_wanted.kick();
    }

    /// Blocks of the largest write that has waited for physical space since they were last taken; 0 if none has.
    pub(crate) fn waiting_blocks(&self) -> u64 {
        self.waiting_blocks.get()
    }

    /// Takes the number of [`Forms::waiting_blocks`].
    pub(crate) fn take_waiting_blocks(&self) -> u64 {
        self.waiting_blocks.take()
    }

    /// Resolves when a client's write waits for physical space.
    pub(crate) async fn wait_for_pressure(&self) {
        self.pressed.kicked().await;
    }

    /// A member has come, which may have old pages: all are to be written to it. Replay needs the log from `tail` on until then.
    pub(crate) fn write_all_again(&self, tail: u64) {
        self.pages.borrow_mut().set_all_dirty(tail);
    }

    /// The oldest group that replay needs because a form page on the members lacks its changes.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.pages.borrow().oldest().filter(|_| !mutation::on(Mutation::TailPassesForms))
    }

    /// Takes the pages that lack changes, to be written to all active members.
    pub(crate) fn take_pages(&self) -> Vec<PageWrite> {
        let layout = self.state.layout();
        let table = self.table.borrow();
        let taken = self.pages.borrow_mut().take();
        let writes = taken.into_iter().map(|(page, version)| {
            let header =
                FormPageHeader { log: layout.geometry.log, shard: layout.index as u16, page, version };
            let mut content = Buf::stale(BLOCK_BYTES);
            let forms = table.page_stripes(page).map(|stripe| table.get(stripe));
            encode_form_page(&header, forms, content.bytes_mut());
            PageWrite { offset: layout.form_page_offset(page, version), content }
        });
        writes.collect()
    }

    /// The pages taken are durable, or, if not, are to be written again.
    pub(crate) fn end_writing(&self, durable: bool) {
        self.pages.borrow_mut().end_writing(durable);
    }

    /// Whether the record of a change that took effect may not be durable.
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure.get()
    }

    /// Notes whether the record of a change that took effect may not be durable.
    pub(crate) fn set_unsure(&self, unsure: bool) {
        self.unsure.set(unsure);
    }

    /// Counts a change of the form of these stripes, which ascend, as under way.
    pub(crate) fn begin_change(&self, stripes: Vec<u64>) -> FormChange<'_, I> {
        let layout = self.state.layout();
        let mut regions: Vec<usize> = stripes.iter().map(|&stripe| layout.region(stripe)).collect();
        regions.dedup();
        let mut changing = self.changing.borrow_mut();
        regions.iter().for_each(|&region| *changing.entry(region).or_default() += 1);
        FormChange { forms: self, stripes, regions }
    }

    /// Whether forms of a region's stripes are being changed, or unused units of them may hold something.
    pub(crate) fn is_untidy(&self, region: usize) -> bool {
        let stripes = self.state.layout().region_stripes(region);
        self.changing.borrow().contains_key(&region) || self.untidy.borrow().range(stripes).next().is_some()
    }

    /// Notes stripes whose unused units may hold something.
    pub(crate) fn note_untidy(&self, stripes: impl IntoIterator<Item = u64>) {
        self.untidy.borrow_mut().extend(stripes);
        self.tidy_wanted.kick();
    }

    /// Takes the stripes whose unused units may hold something.
    pub(crate) fn take_untidy(&self) -> BTreeSet<u64> {
        std::mem::take(&mut *self.untidy.borrow_mut())
    }

    /// Whether unused units of a stripe may hold something that no task is about to discard.
    pub(crate) fn is_stripe_untidy(&self, stripe: u64) -> bool {
        self.untidy.borrow().contains(&stripe)
    }

    /// Number of stripes whose unused units may hold something.
    pub(crate) fn untidy(&self) -> usize {
        self.untidy.borrow().len()
    }

    /// Resolves when there are stripes to be tidied, perhaps.
    pub(crate) async fn wait_for_untidy(&self) {
        self.tidy_wanted.kicked().await;
    }
}

/// The page that has the form of a stripe.
pub(crate) fn page_of(stripe: u64) -> u32 {
    (stripe / FORMS_PER_PAGE) as u32
}
