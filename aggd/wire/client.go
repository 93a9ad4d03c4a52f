package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"hutch/aggd/rawjson"
)

// MaxClients is the most sets of client capabilities that are kept.
const MaxClients = 64

// Key returns the key of a set of client capabilities: the same for the same set
// however it is spelled, and "" for the empty set.
func (p ClientParams) Key() (string, error) {
	canonical, err := rawjson.Canonical(p.Capabilities)
	switch text := string(canonical); {
	case err != nil:
		return "", fmt.Errorf("client capabilities: %w", err)
	case text == "", text == "null", text == "{}":
		return "", nil
	case text[0] != '{':
		return "", errors.New("client capabilities: no object")
	}
	sum := sha256.Sum256(canonical)
	kind := "c"
	if p.Stateless {
		kind = "s"
	}
	return kind + hex.EncodeToString(sum[:8]), nil
}
