package profiles

import (
	"strings"
	"sync"
)

// Provided begins the names of the profiles that no file says: those of the VMs
// that MCP servers run in. No file can have such a name.
const Provided = "server:"

// A provision is the profiles that are provided.
type provision struct {
	mu     sync.Mutex // guards byName
	byName map[string]*Profile
}

// IsProvided says whether a name is that of such a profile.
func IsProvided(name string) bool { return strings.HasPrefix(name, Provided) }

func (p *provision) get(name string) *Profile {
	if !IsProvided(name) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byName[name]
}

// Provide has a profile be there whose name begins with Provided, in the place of
// the one before.
func (s *Store) Provide(p *Profile) {
	s.provided.mu.Lock()
	defer s.provided.mu.Unlock()
	if s.provided.byName == nil {
		s.provided.byName = make(map[string]*Profile)
	}
	s.provided.byName[p.Name] = p
}

// Withdraw has the profile of that name be there no more.
func (s *Store) Withdraw(name string) {
	s.provided.mu.Lock()
	defer s.provided.mu.Unlock()
	delete(s.provided.byName, name)
}
