//! Room 5: what near it was seen within the window?
