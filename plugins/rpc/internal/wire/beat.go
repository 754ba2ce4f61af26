package wire

import "time"

// BeatEvery is the interval between a backend's heartbeats. A heartbeat increments a counter in the region's header or,
// without a region, is a Progress message.
const BeatEvery = 250 * time.Millisecond
