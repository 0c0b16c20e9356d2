//! Arithmetic in GF(2^8) with polynomial 0x11d and generator 2, as in Linux RAID-6.

/// `a * b` in GF(2^8).
pub(super) const fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut bit = 8;
    while bit > 0 {
        bit -= 1;
        product = double(product) ^ if b >> bit & 1 == 1 { a } else { 0 };
    }
    product
}

/// `2 * a` in GF(2^8).
pub(super) const fn double(a: u8) -> u8 {
    a << 1 ^ if a & 0x80 != 0 { 0x1d } else { 0 }
}

/// `g^exponent`.
pub(super) fn power(exponent: usize) -> u8 {
    POWERS[exponent % 255]
}

/// The inverse of `a`.
///
/// # Panics
/// When `a` is 0.
pub(super) fn inverse(a: u8) -> u8 {
    let exponent = POWERS.iter().position(|&power| power == a).expect("zero has no inverse");
    power(255 - exponent)
}

/// The powers of g, which are all elements but 0.
pub(super) static POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut exponent = 1;
    while exponent < 255 {
        powers[exponent] = double(powers[exponent - 1]);
        exponent += 1;
    }
    powers
};
