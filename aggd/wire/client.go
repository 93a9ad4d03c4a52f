package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// MaxClients is the most sets of client capabilities that are kept.
const MaxClients = 64

// Key returns the key of a set of client capabilities: the same for the same set
// however it is spelled, and "" for the empty set.
func (p ClientParams) Key() (string, error) {
	capabilities := p.Capabilities
	if len(capabilities) == 0 {
		return "", nil
	}
	d := json.NewDecoder(strings.NewReader(string(capabilities)))
	d.UseNumber()
	var set map[string]any
	if err := d.Decode(&set); err != nil {
		return "", fmt.Errorf("client capabilities: %w", err)
	}
	if len(set) == 0 {
		return "", nil
	}
	canonical, err := json.Marshal(set) // sorts the keys
	if err != nil {
		return "", fmt.Errorf("client capabilities: %w", err)
	}
	sum := sha256.Sum256(canonical)
	kind := "c"
	if p.Stateless {
		kind = "s"
	}
	return kind + hex.EncodeToString(sum[:8]), nil
}
