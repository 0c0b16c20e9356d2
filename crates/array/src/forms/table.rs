//! The form of each stripe of a shard: two bits a stripe, and how many stripes have each form.

use sinew_format::form_page::FORMS_PER_PAGE;
use sinew_format::model::form::Form;

/// Stripes of a byte.
const PER_BYTE: u64 = 4;

/// The forms of a shard's stripes.
pub(crate) struct FormTable {
    bits: Vec<u8>,
    stripes: u64,
    counts: [u64; Form::ALL.len()],
}

impl FormTable {
    /// All stripes are empty.
    pub(crate) fn new(stripes: u64) -> FormTable {
        let bytes = stripes.div_ceil(PER_BYTE) as usize;
        FormTable { bits: vec![0; bytes], stripes, counts: [stripes, 0, 0] }
    }

    /// The form of a stripe.
    pub(crate) fn get(&self, stripe: u64) -> Form {
        let bits = self.bits[(stripe / PER_BYTE) as usize] >> (stripe % PER_BYTE * 2) & 3;
        Form::from_number(bits).expect("only forms are stored")
    }

    /// Changes the form of a stripe.
    pub(crate) fn set(&mut self, stripe: u64, form: Form) {
        self.counts[self.get(stripe) as usize] -= 1;
        self.counts[form as usize] += 1;
        let byte = &mut self.bits[(stripe / PER_BYTE) as usize];
        let shift = stripe % PER_BYTE * 2;
        *byte = *byte & !(3 << shift) | (form as u8) << shift;
    }

    /// Number of stripes of a form.
    pub(crate) fn count(&self, form: Form) -> u64 {
        self.counts[form as usize]
    }

    /// The stripes of a page.
    pub(crate) fn page_stripes(&self, page: u32) -> std::ops::Range<u64> {
        let first = u64::from(page) * FORMS_PER_PAGE;
        first..(first + FORMS_PER_PAGE).min(self.stripes)
    }

    /// The first stripe of a form from `from` on, going around.
    pub(crate) fn next_of(&self, form: Form, from: u64) -> Option<u64> {
        if self.count(form) == 0 {
            return None;
        }
        (from..self.stripes).chain(0..from.min(self.stripes)).find(|&stripe| self.get(stripe) == form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_kept_apart_and_counted() {
        let mut table = FormTable::new(9);
        for (stripe, form) in [(3, Form::Mirrored), (4, Form::Parity), (8, Form::Mirrored), (3, Form::Parity)]
        {
            table.set(stripe, form);
        }
        let found: Vec<Form> = (0..9).map(|stripe| table.get(stripe)).collect();
        let (empty, parity, mirrored) = (Form::Empty, Form::Parity, Form::Mirrored);
        assert_eq!(found, [empty, empty, empty, parity, parity, empty, empty, empty, mirrored]);
        assert_eq!(Form::ALL.map(|form| table.count(form)), [6, 2, 1]);
        assert_eq!(table.next_of(Form::Parity, 4), Some(4));
        assert_eq!(table.next_of(Form::Parity, 5), Some(3), "the search goes around");
        assert_eq!(table.page_stripes(0), 0..9);
        table.set(8, Form::Empty);
        assert_eq!(table.next_of(Form::Mirrored, 0), None);
    }
}
