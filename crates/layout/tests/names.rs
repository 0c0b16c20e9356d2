//! The names of levels, rotations and growth methods.

use std::fmt;

use sinew_layout::grown::Method;
use sinew_layout::names::{Name, Named, parse};
use sinew_layout::{LevelName, Rotation};

fn names_are_read_and_written<T: Named + fmt::Debug + fmt::Display>() {
    for entry in T::NAMES {
        assert_eq!(entry.value.to_string(), entry.name);
        assert_eq!(parse(entry.name), Ok(entry.value));
        assert_eq!(entry.short.map_or(Ok(entry.value), parse), Ok(entry.value));
        let same = |other: &&Name<T>| other.name == entry.name || other.short == Some(entry.name);
        assert_eq!(T::NAMES.iter().filter(same).count(), 1, "{} is the name of two values", entry.name);
    }
}

#[test]
fn each_name_is_of_one_value() {
    names_are_read_and_written::<LevelName>();
    names_are_read_and_written::<Rotation>();
    names_are_read_and_written::<Method>();
}

#[test]
fn a_wrong_name_lists_the_valid_ones() {
    let error = "left".parse::<Rotation>().unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no rotation \"left\"; the valid names are left-asymmetric, right-asymmetric, left-symmetric, \
         right-symmetric"
    );
    assert_eq!("5".parse::<LevelName>().map(LevelName::name), Ok("raid5"));
}
