package guest

import "time"

// Hurry gives the guest less time to answer.
func (g *Guest) Hurry() { g.limit = 100 * time.Millisecond }
