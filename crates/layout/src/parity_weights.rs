//! Parity dealt to the members of an array by weights, so that they age at different rates.
//!
//! Members that hold equal shares of the parity get equal shares of the writes, and SSDs that get equal shares of the
//! writes wear out together (Balakrishnan et al., "Differential RAID", EuroSys 2010; Jeremic et al., "The pitfalls of
//! deploying solid-state drive RAIDs", SYSTOR 2011). Guarantees: in each turn of [`ParityWeights::turn`] stripes every
//! member holds exactly its share of the parity, and P and Q of a stripe are on different members.

use std::fmt;
use std::str::FromStr;

/// The sum of the weights at most, once their common divisor is taken out.
pub const WEIGHT_SUM_MAX: u32 = 32;

/// The weights of the members of an array with one or two parities.
///
/// The weights lie one after the other on a circle, each as long as it is. A stripe takes its one parity at one place of the
/// circle, its two at opposite places: systematic sampling (Madow 1949), which is exact over a turn. Consecutive
/// stripes take places that are about a golden section of the circle apart, so that any run of stripes has nearly the
/// shares of the turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParityWeights {
    members: u8,
    turn: u8,
    stride: u8,
    /// The member at each place of the circle.
    circle: [u8; WEIGHT_SUM_MAX as usize],
}

/// Why weights are impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// Not a list of numbers.
    #[error("{0:?} are no parity weights; give one number from 0 to 255 for each member, as in 4,2,1,1")]
    Syntax(String),
    /// No member has parity.
    #[error("all parity weights are 0; at least one member must hold parity")]
    Zero,
    /// Too fine.
    #[error(
        "the parity weights have a sum of {0} in lowest terms; at most {WEIGHT_SUM_MAX} is possible, so give smaller numbers"
    )]
    Sum(u32),
    /// More weights than an array has members.
    #[error("{0} parity weights; an array has at most {max} members", max = crate::MEMBERS_MAX)]
    Members(usize),
}

impl ParityWeights {
    /// Parity in proportion to these weights, one for each member. Only their ratios count.
    ///
    /// # Errors
    /// When all are 0, their sum in lowest terms exceeds [`WEIGHT_SUM_MAX`], or there are more than members.
    pub fn new(weights: &[u8]) -> Result<ParityWeights, WeightsError> {
        let members = u8::try_from(weights.len()).map_err(|_| WeightsError::Members(weights.len()))?;
        let divisor = weights.iter().fold(0, |divisor, &weight| common_divisor(divisor, weight));
        if divisor == 0 {
            return Err(WeightsError::Zero);
        }
        let sum: u32 = weights.iter().map(|&weight| u32::from(weight / divisor)).sum();
        if sum > WEIGHT_SUM_MAX {
            return Err(WeightsError::Sum(sum));
        }
        let mut circle = [0; WEIGHT_SUM_MAX as usize];
        let places = (0..members).zip(weights);
        let places =
            places.flat_map(|(member, weight)| std::iter::repeat_n(member, usize::from(weight / divisor)));
        circle.iter_mut().zip(places).for_each(|(place, member)| *place = member);
        Ok(ParityWeights { members, turn: sum as u8, stride: stride(sum as u8), circle })
    }

    /// The weights in lowest terms, one for each member.
    pub fn weights(&self) -> Vec<u8> {
        let mut weights = vec![0; usize::from(self.members)];
        self.places().iter().for_each(|&member| weights[usize::from(member)] += 1);
        weights
    }

    /// The number of members that they are for.
    pub fn members(&self) -> u32 {
        u32::from(self.members)
    }

    /// Stripes after which parity is where it was.
    pub fn turn(&self) -> u32 {
        u32::from(self.turn)
    }

    /// Whether stripes can have this number of parities, each on another member.
    pub fn allow(&self, parities: u32) -> bool {
        let most = self.weights().into_iter().max().unwrap_or(0);
        u32::from(most) * parities <= self.turn()
    }

    /// The member that holds parity `which` of `parities` of a stripe.
    pub(crate) fn member(&self, stripe: u64, which: u32, parities: u32) -> u32 {
        let turn = u64::from(self.turn);
        let first = stripe % turn * u64::from(self.stride) % turn;
        // Each weight is as often as long on the circle as there are parities, of which the next lies a turn further.
        let place = (first + u64::from(which) * turn) / u64::from(parities);
        u32::from(self.circle[place as usize])
    }

    fn places(&self) -> &[u8] {
        &self.circle[..usize::from(self.turn)]
    }
}

impl fmt::Debug for ParityWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParityWeights").field(&self.weights()).finish()
    }
}

/// The weights as a list, as options and settings have it.
impl fmt::Display for ParityWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weights: Vec<String> = self.weights().iter().map(u8::to_string).collect();
        f.write_str(&weights.join(","))
    }
}

impl FromStr for ParityWeights {
    type Err = WeightsError;

    fn from_str(text: &str) -> Result<ParityWeights, WeightsError> {
        let numbers = text.split(',').map(|weight| weight.trim().parse());
        let weights = numbers.collect::<Result<Vec<u8>, _>>();
        ParityWeights::new(&weights.map_err(|_| WeightsError::Syntax(text.to_owned()))?)
    }
}

/// The step from stripe to stripe: coprime to the turn, and about its golden section.
fn stride(turn: u8) -> u8 {
    let golden = (f64::from(turn) * 0.618_034).round() as u8;
    (golden.max(1)..=turn).find(|&step| common_divisor(step, turn) == 1).unwrap_or(1)
}

fn common_divisor(a: u8, b: u8) -> u8 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_holds_its_share_of_a_turn() {
        let all: [&[u8]; 7] = [
            &[1],
            &[4, 2, 1, 1],
            &[6, 1, 1, 1, 1],
            &[4, 3, 2, 1, 0],
            &[1, 0, 0],
            &[2, 2, 2, 2],
            &[9, 7, 6, 4, 3, 3],
        ];
        for weights in all {
            let dealt = ParityWeights::new(weights).unwrap();
            for parities in 1..=2 {
                if !dealt.allow(parities) {
                    continue;
                }
                let mut held = vec![0u32; weights.len()];
                for stripe in 100..100 + u64::from(dealt.turn()) {
                    let members: Vec<u32> =
                        (0..parities).map(|which| dealt.member(stripe, which, parities)).collect();
                    assert!(parities == 1 || members[0] != members[1], "{weights:?}: {members:?}");
                    members.into_iter().for_each(|member| held[member as usize] += 1);
                }
                let shares: Vec<u32> = dealt.weights().iter().map(|&w| u32::from(w) * parities).collect();
                assert_eq!(held, shares);
            }
        }
    }

    #[test]
    fn only_ratios_count_and_impossible_weights_are_refused() {
        let tens = ParityWeights::new(&[40, 20, 10, 10]).unwrap();
        assert_eq!(tens, ParityWeights::new(&[4, 2, 1, 1]).unwrap());
        assert_eq!(tens.to_string(), "4,2,1,1");
        assert_eq!("8, 4,2,2".parse(), Ok(tens));
        assert_eq!("4,x".parse::<ParityWeights>(), Err(WeightsError::Syntax("4,x".to_owned())));
        assert_eq!(ParityWeights::new(&[0, 0]), Err(WeightsError::Zero));
        assert_eq!(ParityWeights::new(&[]), Err(WeightsError::Zero));
        assert_eq!(ParityWeights::new(&[30, 2, 1]), Err(WeightsError::Sum(33)));
        assert_eq!(ParityWeights::new(&[1; 256]), Err(WeightsError::Members(256)));
        // The weights of two parities are at most half.
        assert!(!ParityWeights::new(&[3, 1, 1]).unwrap().allow(2));
        assert!(ParityWeights::new(&[2, 1, 1]).unwrap().allow(2));
    }
}
