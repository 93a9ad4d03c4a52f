package mcpd

import (
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// watch has the server of a task tell of it, and says whether it will.
func (l *listen) watch(id string) bool {
	e, t := l.call.session.e, l.call.session.e.tasks.find(id)
	if t == nil || !t.newer || t.principal != l.call.who {
		return false
	}
	l.mu.Lock()
	l.tasks[id] = 0
	l.mu.Unlock()
	about := topic{t.key, t.server, wire.TaskScheme + id}
	if _, ok := e.subs.add(about, l, id); ok {
		if e.tell(l.call.ctx, about, "resources/subscribe") == nil {
			return true
		}
		if e.subs.remove(about, l) {
			e.unwanted(about)
		}
	}
	l.mu.Lock()
	delete(l.tasks, id)
	l.mu.Unlock()
	return false
}

// newsTries is how often the server is asked for a task of which there is news.
const newsTries = 3

// taskChanged notes that there is news of a task, to be asked for so often. It never
// blocks.
func (l *listen) taskChanged(id string, tries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, watched := l.tasks[id]; !watched || tries <= had {
		return
	}
	l.tasks[id] = tries
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// tellTasks tells the client of the tasks of which there is news. What it tells it
// asks the server for, as the client would, so that ledger and policy see the same:
// what the server says in passing nobody has judged. Where that fails it is asked
// again: there may be no later news. What the policy keeps back is not.
func (l *listen) tellTasks() {
	l.mu.Lock()
	changed := make(map[string]int)
	for id, tries := range l.tasks {
		if tries > 0 {
			changed[id], l.tasks[id] = tries, 0
		}
	}
	l.mu.Unlock()
	for id, tries := range changed {
		state, err := l.request(l.call.client, "tasks/get", append(rawjson.AppendString([]byte(`{"taskId":`), id), '}'))
		if err == nil {
			l.notify("notifications/tasks", rawjson.Delete(state, resultNames[rType], resultNames[rMeta]))
			continue
		}
		l.call.session.e.cfg.Log.Debug("tasks/get", "vm", l.call.session.e.cfg.VM(), "task", id, "err", err)
		if err.Code != jsonrpc.CodeInvalid {
			l.taskChanged(id, tries-1)
		}
	}
	pause(l.call.ctx, roundsPause) // a server may have news all the time
}
