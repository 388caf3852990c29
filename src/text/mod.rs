//! Room 2: text -> weighted features.
