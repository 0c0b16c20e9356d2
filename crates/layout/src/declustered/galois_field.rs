//! Finite fields of up to 255 elements, as tables.
//!
//! Element a of GF(p^e) stands for the polynomial whose coefficients are the digits of a in base p, lowest first;
//! products are taken modulo an irreducible polynomial of degree e. 0 and 1 are the neutral elements.

/// A finite field.
#[derive(Debug)]
pub(crate) struct Field {
    order: usize,
    sums: Vec<u8>,
    products: Vec<u8>,
}

impl Field {
    /// The field with `order` elements, which exists when that is a prime power.
    pub(crate) fn of_order(order: usize) -> Option<Field> {
        assert!(order < 256, "elements are bytes");
        let prime = (2..=order).find(|divisor| order.is_multiple_of(*divisor))?;
        let degree = order.ilog(prime);
        if prime.pow(degree) != order {
            return None;
        }
        let modulus = irreducible(prime, degree);
        let polynomials: Vec<Polynomial> = (0..order).map(|element| digits(element, prime)).collect();
        let pairs = || polynomials.iter().flat_map(|a| polynomials.iter().map(move |b| (a, b)));
        let sums = pairs().map(|(a, b)| number(&sum(a, b, prime), prime)).collect();
        let products =
            pairs().map(|(a, b)| number(&remainder(product(a, b, prime), &modulus, prime), prime)).collect();
        Some(Field { order, sums, products })
    }

    /// `a + b` for every element b.
    pub(crate) fn sums(&self, a: u8) -> &[u8] {
        &self.sums[usize::from(a) * self.order..][..self.order]
    }

    /// `a * b` for every element b.
    pub(crate) fn products(&self, a: u8) -> &[u8] {
        &self.products[usize::from(a) * self.order..][..self.order]
    }
}

/// Coefficients, lowest first. The largest are products in GF(2^7), of degree 12.
type Polynomial = [usize; 16];

fn digits(mut number: usize, base: usize) -> Polynomial {
    std::array::from_fn(|_| {
        let digit = number % base;
        number /= base;
        digit
    })
}

fn number(polynomial: &Polynomial, base: usize) -> u8 {
    polynomial.iter().rev().fold(0, |number, digit| number * base + digit) as u8
}

fn sum(a: &Polynomial, b: &Polynomial, prime: usize) -> Polynomial {
    std::array::from_fn(|i| (a[i] + b[i]) % prime)
}

fn product(a: &Polynomial, b: &Polynomial, prime: usize) -> Polynomial {
    let mut product = [0; 16];
    for (i, a) in a[..8].iter().enumerate().filter(|(_, a)| **a != 0) {
        for (j, b) in b[..8].iter().enumerate() {
            product[i + j] = (product[i + j] + a * b) % prime;
        }
    }
    product
}

fn degree(polynomial: &Polynomial) -> Option<usize> {
    polynomial.iter().rposition(|&digit| digit != 0)
}

/// The remainder of `dividend` by a polynomial whose highest coefficient is 1.
fn remainder(mut dividend: Polynomial, divisor: &Polynomial, prime: usize) -> Polynomial {
    let low = degree(divisor).expect("the divisor is not zero");
    while let Some(high) = degree(&dividend).filter(|&high| high >= low) {
        let quotient = dividend[high];
        for i in 0..=low {
            let place = &mut dividend[high - low + i];
            *place = (*place + (prime - divisor[i]) * quotient) % prime;
        }
    }
    dividend
}

/// The first irreducible polynomial of the degree with highest coefficient 1: no such polynomial of at most half its
/// degree divides it.
fn irreducible(prime: usize, degree: u32) -> Polynomial {
    let monic = |degree: u32| {
        let highest = prime.pow(degree);
        (highest..2 * highest).map(move |number| digits(number, prime))
    };
    monic(degree)
        .find(|candidate| {
            let mut divisors = (1..=degree / 2).flat_map(monic);
            !divisors.any(|divisor| remainder(*candidate, &divisor, prime) == [0; 16])
        })
        .expect("there is an irreducible polynomial of every degree")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The axioms, exhaustively for the small fields and by every third element for all.
    #[test]
    fn every_prime_power_has_a_field() {
        let orders: Vec<usize> = (2..256).filter(|&order| Field::of_order(order).is_some()).collect();
        assert_eq!(
            orders.len(),
            54 + 15,
            "54 primes below 256, and 4 8 9 16 25 27 32 49 64 81 121 125 128 169 243"
        );
        for order in orders {
            let field = Field::of_order(order).expect("it is one of them");
            let add = |a: u8, b: u8| field.sums(a)[usize::from(b)];
            let times = |a: u8, b: u8| field.products(a)[usize::from(b)];
            let elements = || (0..order).map(|element| element as u8);
            for a in elements() {
                assert_eq!((add(a, 0), times(a, 1), times(a, 0)), (a, a, 0));
                assert_eq!(elements().filter(|&b| add(a, b) == 0).count(), 1);
                assert_eq!(elements().filter(|&b| times(a, b) == 1).count(), usize::from(a != 0));
                for b in elements() {
                    assert_eq!((add(a, b), times(a, b)), (add(b, a), times(b, a)));
                    for c in elements().step_by(if order <= 32 { 1 } else { order / 3 }) {
                        assert_eq!(add(a, add(b, c)), add(add(a, b), c));
                        assert_eq!(times(a, times(b, c)), times(times(a, b), c));
                        assert_eq!(times(a, add(b, c)), add(times(a, b), times(a, c)));
                    }
                }
            }
        }
    }
}
