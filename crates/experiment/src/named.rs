//! The experiments that ship with the program: the files under `experiments/`.

/// An experiment that ships with the program.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! named {
    ($($name:literal),* $(,)?) => {
        /// All of them.
        pub const ALL: &[Named] = &[$(Named {
            name: $name,
            text: include_str!(concat!("../../../experiments/", $name, ".toml")),
        }),*];
    };
}

named!["first", "consistency"];

/// One by its name.
pub fn find(name: &str) -> Option<Named> {
    ALL.iter().copied().find(|named| named.name == name)
}
