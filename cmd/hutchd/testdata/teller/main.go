// Teller is an MCP server on standard input and output, whose tool tells its arguments and
// what is in the file beside it, called note, if one is.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"teller","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"tell","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			self, _ := os.Executable()
			note, _ := os.ReadFile(filepath.Join(filepath.Dir(self), "note"))
			text, _ := json.Marshal(fmt.Sprintf("%q %s", os.Args[1:], note))
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result)
	}
}
