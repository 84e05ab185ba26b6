"""Tools: what a model may call. See `Toolbox`."""

from everthread.tools.context import ToolContext
from everthread.tools.functions import FunctionTool, tool
from everthread.tools.mcp_servers import McpServer
from everthread.tools.results import parts_of
from everthread.tools.toolbox import Toolbox

__all__ = ["FunctionTool", "McpServer", "ToolContext", "Toolbox", "parts_of", "tool"]
