-- Health from the conditions Ready and Stalled, by the rules of kstatus: True is healthy, Stalled is degraded, everything
-- else goes on. A BrevJob is healthy once it has succeeded and its machine is gone. The three kinds share this text.
local health = {status = "Progressing", message = "Waiting for the operator."}
if obj.status == nil or obj.status.conditions == nil then
  return health
end
local seen, wanted = obj.status.observedGeneration, obj.metadata.generation
if seen ~= nil and wanted ~= nil and seen < wanted then
  health.message = "Waiting for the operator to look at the latest change."
  return health
end
local ready, stalled
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" then
    ready = condition
  elseif condition.type == "Stalled" then
    stalled = condition
  end
end
local telling = ready
if stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
  telling = stalled
elseif ready ~= nil and ready.status == "True" then
  health.status = "Healthy"
end
if telling ~= nil then
  health.message = telling.reason
  if telling.message ~= nil and telling.message ~= "" then
    health.message = telling.reason .. ": " .. telling.message
  end
end
return health
