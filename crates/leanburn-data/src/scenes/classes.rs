//! What the cells of maps may be.

/// What the cells of the map of a synthetic scene may be, several at a time.
pub const ROAD_CLASSES: [&str; 5] = ["drivable", "crossing", "walkway", "divider", "vehicle"];

/// What the cells of a map of nuScenes may be, several at a time; bit `i` of a map's pixel is class `i`.
pub const NUSCENES_CLASSES: [&str; 14] = [
    "drivable_area",
    "ped_crossing",
    "walkway",
    "carpark",
    "car",
    "truck",
    "bus",
    "trailer",
    "construction_vehicle",
    "pedestrian",
    "motorcycle",
    "bicycle",
    "traffic_cone",
    "barrier",
];
