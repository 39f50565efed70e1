package measure

// Day is what the driver day.py writes: bursts of tasks, each of which wants a node of its own. Times are seconds since 1970.
type Day struct {
	Begin, End float64
	Bursts     []Burst
	Joined     []float64 // when each node but the head's came, Ray's time
}

// Burst is from when its tasks were wanted to the end of the last one.
type Burst struct {
	Wanted, Ended float64
	Begun         []float64
	Sum           int // of the results
}
