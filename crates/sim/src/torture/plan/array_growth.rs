//! The growth of an array as a setting.

use sinew_format::model::array_growth::GrowMethod;

use super::setting::Value;
use crate::random::Rng;

/// Additions of members, one after the other. The members are the last ones of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayGrowth {
    /// The method.
    pub method: GrowMethod,
    /// Members of each addition.
    pub added: Vec<usize>,
}

impl ArrayGrowth {
    pub(super) fn draw(rng: &mut Rng) -> ArrayGrowth {
        let method = GrowMethod::STRIPED[rng.below(GrowMethod::STRIPED.len() as u64) as usize];
        ArrayGrowth { method, added: (0..rng.between(1, 2)).map(|_| rng.between(1, 3) as usize).collect() }
    }
}

/// `none`, or a method and the members of each addition: `fastscale+2+1`.
impl Value for Option<ArrayGrowth> {
    fn show(&self) -> String {
        let Some(growth) = self else { return "none".to_owned() };
        let added: String = growth.added.iter().map(|added| format!("+{added}")).collect();
        format!("{}{added}", growth.method.name())
    }

    fn parse(text: &str) -> Result<Option<ArrayGrowth>, String> {
        if text == "none" {
            return Ok(None);
        }
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let method = name.parse().ok();
        let added: Option<Vec<usize>> = parts.map(|part| part.parse().ok().filter(|&n| n > 0)).collect();
        match (method, added) {
            (Some(method), Some(added)) if !added.is_empty() => Ok(Some(ArrayGrowth { method, added })),
            _ => Err("none, or a method and the members of each addition, such as fastscale+2+1".to_owned()),
        }
    }

    fn smaller(&self) -> Vec<Option<ArrayGrowth>> {
        let Some(growth) = self else { return Vec::new() };
        let mut all = vec![None];
        if growth.added.len() > 1 {
            let added = growth.added[..growth.added.len() - 1].to_vec();
            all.push(Some(ArrayGrowth { added, ..growth.clone() }));
        }
        all
    }
}
