//! The plan of a run: settings drawn from a seed, which can be read, changed and made smaller.
//!
//! ```text
//! setting       values of settings as text, and smaller ones
//! events        failures, orders of operators, ends of openings
//! member        the members
//! growth        growth of mapped pools
//! array         the array
//! array_growth  growth of arrays
//! settings      the plan
//! check         which plans can be played
//! draw_array    the array of a seed
//! draw          the plan of a seed
//! ```
//!
//! A file uses those above it only.

mod array;
mod array_growth;
mod check;
mod draw;
mod draw_array;
mod events;
mod growth;
mod member;
mod setting;
mod settings;

pub use events::{Corruptor, Ending, Trouble};
pub(crate) use growth::Growth;
pub use member::{MemberKind, MemberPlan, Trait};
pub use setting::Numbers;
pub use settings::{Plan, Setting};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_has_a_plan_that_can_be_played() {
        for seed in 0..3000 {
            assert_eq!(Plan::draw(seed).check(), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn a_plan_survives_its_text() {
        for seed in 0..100 {
            let (from, mut to) = (Plan::draw(seed), Plan::draw(seed + 1));
            to.seed = seed;
            for setting in from.settings() {
                to.set(setting.name, &setting.value).unwrap();
            }
            assert_eq!(from, to);
            assert_eq!(to.overrides(), [""; 0]);
        }
    }

    #[test]
    fn the_former_name_of_a_setting_is_accepted() {
        let (mut plan, mut former) = (Plan::draw(1), Plan::draw(1));
        plan.set("spike_avoidance", "watch").unwrap();
        former.set("step_around", "watch").unwrap();
        assert_eq!(plan, former);
        assert_eq!(plan.overrides(), ["spike_avoidance=watch"]);
    }

    #[test]
    fn wrong_settings_are_refused() {
        let mut plan = Plan::draw(1);
        for (name, value) in [
            ("speed", "1"),
            ("clients", "-1"),
            ("members", "6"),
            ("members", "6M:wood"),
            ("members", "6M:ultrastar:aged"),
            ("endings", "bang"),
            ("trouble", "2"),
            ("protection", "raid5"),
        ] {
            let told = plan.set(name, value).unwrap_err();
            assert!(told.contains(name) || told.contains("setting"), "{told}");
        }
        assert_eq!(plan, Plan::draw(1));
        plan.set("lost", "7").unwrap();
        assert!(plan.check().is_err());
    }
}
