package gpu

// Callbacks holds the functions of Device.OnDone until their submissions have ended. The zero value holds none.
type Callbacks struct{ list []callback }

type callback struct {
	after int
	f     func()
}

// Add registers f, which is due once the first n submissions have ended. n must not decrease from call to call.
func (c *Callbacks) Add(n int, f func()) { c.list = append(c.list, callback{n, f}) }

// Due removes and returns the functions that are due when the first n submissions have ended, in order.
func (c *Callbacks) Due(n int) (due []func()) {
	for len(c.list) > 0 && c.list[0].after <= n {
		due, c.list = append(due, c.list[0].f), c.list[1:]
	}
	return due
}
