package guest

import "time"

// Hurry gives the guest less time to answer.
func (g *Guest) Hurry() { g.limit = 100 * time.Millisecond }

// Believe has what is known of guests' files believed for so long, until the
// function that it returns is called.
func Believe(d time.Duration) (undo func()) {
	before := keep
	keep = d
	return func() { keep = before }
}

// Settled says whether the newest connection is the one that is spoken on.
func (g *Guest) Settled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.begun == nil && g.conn != nil && g.conn.Ended() == nil
}

// Age has all that is in sight be old, and used much.
func (g *Guest) Age() {
	g.sights.mu.Lock()
	defer g.sights.mu.Unlock()
	for _, d := range g.sights.dirs {
		d.at, d.used = time.Now().Add(-time.Hour), many
	}
}

// Change has something be changed from here.
func (g *Guest) Change() { g.sights.forget([]string{"root", "elsewhere"}) }

// InSight returns how many directories are in sight, of those how many are
// being listed again, and whether they will be forgotten.
func (g *Guest) InSight() (dirs, again int, purge bool) {
	g.sights.mu.Lock()
	defer g.sights.mu.Unlock()
	for _, d := range g.sights.dirs {
		if d.again {
			again++
		}
	}
	return len(g.sights.dirs), again, g.sights.purge != nil
}
